#!/bin/sh
# Answers the first line of each file. A file that cannot be read fails its
# record by ending the worker; the next record gets a fresh one.
while IFS= read -r file; do
	exec 3< "$file" || exit
	IFS= read -r first <&3
	printf '%s\n' "$first"
done
