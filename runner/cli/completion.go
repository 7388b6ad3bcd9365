package cli

import (
	"fmt"
	"strings"
)

// completionScript returns the script that completes command lines of crew in a
// shell: one of shells.
func completionScript(shell string) string {
	script, row := bashScript, (*option).bashRow
	switch shell {
	case "zsh":
		script, row = zshScript, (*option).zshRows
	case "fish":
		script, row = fishScript, (*option).fishRow
	}
	var names, valued []string
	var rows, valuedLetters strings.Builder
	for i := range options {
		o := &options[i]
		names = append(names, "--"+o.name)
		if o.value != "" {
			valued = append(valued, "--"+o.name)
			valuedLetters.WriteString(o.short)
		}
		rows.WriteString(row(o))
	}
	return strings.NewReplacer(
		"@ROWS@\n", rows.String(), "@NAMES@", strings.Join(names, " "), "@LETTERS@", valuedLetters.String(),
		"@VALUED@", strings.Join(valued, " "), "@VALUED|@", strings.Join(valued, " | "),
	).Replace(script)
}

// In the scripts, @ROWS@ stands for what there is to say of each option, @NAMES@
// for all long options, @VALUED@ for those that take a value, and @LETTERS@ for the
// short forms of these. Each script finds the end of the options as split does,
// and leaves the rest to the completion of the command there.

const bashScript = `# bash completion for crew: eval "$(crew --completion bash)"
_crew() {
	local cur=${COMP_WORDS[COMP_CWORD]} opt='' word i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ -n $opt ]]; then
			# readline makes three words of --output=line
			[[ $word == '=' ]] || opt=''
			continue
		fi
		case $word in
		--)
			_crew_command $((i + 1))
			return
			;;
		@VALUED|@) opt=$word ;;
		--*) ;;
		-?*) opt=$(_crew_open "${word:1}") ;;
		*)
			_crew_command "$i"
			return
			;;
		esac
	done
	[[ $cur == '=' ]] && cur=''
	case $opt in
@ROWS@
	?*) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	*)
		if [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$_crew_options" -- "$cur")
		else
			_crew_command "$COMP_CWORD"
		fi
		;;
	esac
}
_crew_command() {
	if ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	else
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
_crew_open() {
	local rest=${1#*[@LETTERS@]}
	[[ $1 == *[@LETTERS@]* && -z $rest ]] && printf '%s' "-$1"
}
_crew_options='@NAMES@'
complete -F _crew crew
`

func (o *option) bashRow() string {
	if o.choices == nil {
		return ""
	}
	choices := strings.Join(o.choices, " ")
	return fmt.Sprintf("\t--%s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\") ;;\n", o.name, choices)
}

// As a file in fpath the script is the body of _crew; if it is sourced, it
// registers the function.
const zshScript = `#compdef crew
# zsh completion for crew: source <(crew --completion zsh), or a file _crew in fpath
_crew() {
	_arguments -s -S \
@ROWS@
		'(-)1:command:_command_names -e' \
		'*::arguments:_normal'
}
if [[ $funcstack[1] == _crew ]]; then
	_crew "$@"
else
	compdef _crew crew
fi
`

func (o *option) zshRows() string {
	// Brackets and colons have a meaning in a specification.
	text := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`, `\`, `\\`).Replace(o.text)
	var action, afterLong, afterShort string
	if o.value != "" {
		action, afterLong, afterShort = ":"+o.value+":_files", "=", "+"
	}
	if o.choices != nil {
		action = fmt.Sprintf(":%s:(%s)", o.value, strings.Join(o.choices, " "))
	}
	forms := []string{"--" + o.name + afterLong}
	for _, letter := range o.short {
		forms = append(forms, "-"+string(letter)+afterShort)
	}
	rows := ""
	for _, form := range forms {
		// With * an option can be repeated.
		spec := "*" + form + "[" + text + "]" + action
		rows += "\t\t'" + strings.ReplaceAll(spec, "'", `'\''`) + "' \\\n"
	}
	return rows
}

const fishScript = `# fish completion for crew: crew --completion fish | source
set -g __crew_takers @VALUED@
set -g __crew_letters @LETTERS@
# prints the command that the line holds so far, or fails
function __crew_command
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        set -l word $words[1]
        set -e words[1]
        if test "$word" = --
            set -q words[1]; or return 1
            string escape -- $words
            return
        else if contains -- $word $__crew_takers; or string match -qr -- "^-[^-$__crew_letters]*[$__crew_letters]\$" $word
            set -q words[1]; and set -e words[1]
        else if not string match -q -- '-?*' $word
            string escape -- $word $words
            return
        end
    end
    return 1
end
function __crew_complete_command
    if set -l words (__crew_command)
        complete -C "$words "(commandline -ct)
    else
        __fish_complete_command
    end
end
complete -c crew -f
complete -c crew -a '(__crew_complete_command)'
@ROWS@
`

func (o *option) fishRow() string {
	row := "complete -c crew -n 'not __crew_command >/dev/null' -l " + o.name
	for _, letter := range o.short {
		row += " -s " + string(letter)
	}
	switch {
	case o.choices != nil:
		row += " -x -a '" + strings.Join(o.choices, " ") + "'"
	case o.value != "":
		row += " -r -F"
	}
	text := strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(o.text)
	return row + " -d '" + text + "'\n"
}
