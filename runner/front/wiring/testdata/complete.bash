# Complete each argument. COMP_WORDS is made as readline makes it, which cuts at = too.
source "$SCRIPT"
for line; do
	COMP_WORDS=(${line//=/ = })
	[[ $line == *' ' ]] && COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_crew
	printf '%s\n' "${COMPREPLY[@]}"
	echo --------
done
