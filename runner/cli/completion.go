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
		if o.value != "" && o.alone == "" {
			valued = append(valued, "--"+o.name)
			valuedLetters.WriteString(o.short)
		}
		rows.WriteString(row(o))
	}
	return strings.NewReplacer(
		"@ROWS@\n", rows.String(), "@NAMES@", strings.Join(names, " "), "@LETTERS@", valuedLetters.String(),
		"@VALUED@", strings.Join(valued, " "), "@VALUED|@", strings.Join(valued, " | "),
		"@COMMANDS@", strings.Join(ownWords, " ")+" help", "@VERBS@", ctlTool().verbRows(shell),
		"@ENGINEVERBS@", engineTool().verbRows(shell), "@VERBOPTIONS@\n", verbOptionRows(shell),
	).Replace(script)
}

// verbRows returns the verbs of t, for zsh and fish with descriptions.
func (t *tool) verbRows(shell string) string {
	var rows []string
	for _, v := range t.verbs {
		switch shell {
		case "bash":
			rows = append(rows, v.name)
		case "zsh":
			rows = append(rows, "'"+v.name+":"+v.text+"'")
		case "fish":
			rows = append(rows, v.name+`\t'`+v.text+"'")
		}
	}
	return strings.Join(rows, " ")
}

// verbOptionRows returns a branch of the shell's case command for each verb, which
// has its options.
func verbOptionRows(shell string) string {
	var rows strings.Builder
	for _, t := range []*tool{ctlTool(), engineTool()} {
		for _, v := range t.verbs {
			format := "\t'%s') options=(%s) ;;\n"
			if shell == "fish" {
				format = "        case '%s'\n            printf '%%s\\n' %s\n"
			}
			word := strings.TrimPrefix(t.name, "crew ") + " " + v.name
			fmt.Fprintf(&rows, format, word, strings.Join(v.optionNames(), " "))
		}
	}
	return rows.String()
}

// In the scripts, @ROWS@ stands for what there is to say of each option, @NAMES@
// for all long options, @VALUED@ for those that take a value, and @LETTERS@ for the
// short forms of these. @COMMANDS@ are crew's own commands, @VERBS@ those of crew
// ctl, @ENGINEVERBS@ those of crew engine, and @VERBOPTIONS@ has the options of each
// of these. Each script finds the end of the options as split does, and leaves the
// rest to the completion of the command there.

const bashScript = `# bash completion for crew: eval "$(crew --completion bash)"
_crew() {
	local cur=${COMP_WORDS[COMP_CWORD]} opt='' word i
	COMPREPLY=()
	if [[ ${COMP_WORDS[1]} == @(ctl|engine) ]] && ((COMP_CWORD > 1)); then
		_crew_ctl
		return
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		((i > 1)) || [[ ${COMP_WORDS[1]} != @(serve|worker) ]] || continue
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
_crew_ctl() {
	local options=() verbs='@VERBS@'
	[[ ${COMP_WORDS[1]} == ctl ]] || verbs='@ENGINEVERBS@'
	case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
@VERBOPTIONS@
	esac
	if ((COMP_CWORD == 2)); then
		mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "${options[*]}" -- "$cur")
	elif [[ ${COMP_WORDS[2]} == add || ${COMP_WORDS[1]} == engine ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
_crew_command() {
	if ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur"; (($1 > 1)) || compgen -W '@COMMANDS@' -- "$cur")
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
	local -a options verbs=(@VERBS@)
	[[ $words[2] == engine ]] && verbs=(@ENGINEVERBS@)
	if [[ $words[2] == (ctl|engine) ]] && (( CURRENT == 3 )); then
		_describe verb verbs
		return
	elif [[ $words[2] == (ctl|engine) ]] && (( CURRENT > 3 )); then
		case "$words[2] $words[3]" in
@VERBOPTIONS@
		esac
		if [[ $PREFIX == -* ]]; then
			compadd -- $options
		elif [[ $words[3] == add || $words[2] == engine ]]; then
			_files
		fi
		return
	fi
	(( CURRENT > 2 )) || compadd -- @COMMANDS@
	if [[ $words[2] == (serve|worker) ]] && (( CURRENT > 2 )); then
		shift words
		(( CURRENT-- ))
	fi
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
		if o.alone != "" {
			action, afterLong = ":"+action, "=-" // optional, and only attached
		}
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
    contains -- "$words[1]" serve worker; and set -e words[1]
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
function __crew_ctl
    switch "$argv[1] $argv[2]"
        case 'ctl '
            printf '%s\n' @VERBS@
        case 'engine '
            printf '%s\n' @ENGINEVERBS@
@VERBOPTIONS@
    end
end
function __crew_complete_command
    set -l words (__crew_command)
    if contains -- "$words[1]" ctl engine
        __crew_ctl $words
    else if set -q words[1]
        complete -C "$words "(commandline -ct)
    else
        __fish_complete_command
        printf '%s\n' @COMMANDS@
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
	case o.choices != nil && o.alone == "":
		row += " -x -a '" + strings.Join(o.choices, " ") + "'"
	case o.value != "" && o.alone == "":
		row += " -r -F"
	}
	text := strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(o.text)
	return row + " -d '" + text + "'\n"
}
