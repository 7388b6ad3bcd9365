# Complete each argument, without the descriptions and what stands before =.
source $SCRIPT
for line in $argv
	complete -C $line | awk -F '\t' '{ sub(/^[^=]*=/, "", $1); print $1 }'
	echo --------
end
