#!/usr/bin/awk -f
# Adds up the numbers of each line.
{
	sum = 0
	for (i = 1; i <= NF; i++)
		sum += $i
	print sum
	fflush() # write each answer at once
}
