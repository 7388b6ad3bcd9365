# Complete each argument. zsh completes only at a terminal, so this drives another zsh through
# one of its own, in which compadd tells what it is given.
zmodload zsh/zpty || exit 1
zpty z zsh -f -i
send() { zpty -w z "$1" }
send "PS1= PS2= RPS1= ; unsetopt zle_bracketed_paste 2>/dev/null; autoload -U compinit; compinit -u -D; source ${(q)SCRIPT}"
send 'show() { local -a hits; compadd() { builtin compadd -O hits "$@"; (( $#hits )) && print -rl -- "<"$^hits">"; builtin compadd "$@" }; _main_complete; print "<<end>>"; compstate[insert]=; compstate[list]= }'
send "zle -C show complete-word show; bindkey '^I' show; print '<<re''ady>>'"
zpty -r z got '*<<ready>>*'
for line; do
	zpty -w -n z "$line"$'\t'
	zpty -r z got '*<<end>>*'
	print -r -- "$got" | sed -n 's/^[^<]*<\([^<>]*\)>.*/\1/p' | sed 's/=$//'
	echo --------
	zpty -w -n z $'\x15' # which clears the line
done
zpty -d z
