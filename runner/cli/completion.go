package cli

import (
	"fmt"
	"strings"
)

// completionScript is the script that teaches one of shells the options of the
// flag table.
func completionScript(shell string) string {
	switch shell {
	case "bash":
		return bashScript()
	case "zsh":
		return zshScript()
	}
	return fishScript()
}

// single is s as a word in single quotes. fish knows \' inside them, the others
// do not; escaped is what stands for a quote.
func single(s, escaped string) string {
	return "'" + strings.ReplaceAll(s, "'", escaped) + "'"
}

// bashHead finds where the options end, as split does, and hands the rest to
// the completion of the command that stands there.
const bashHead = `# bash completion for crew: eval "$(crew --completion bash)"
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
`

const bashMiddle = `		--*) ;;
		-?*) opt=$(_crew_open "${word:1}") ;;
		*)
			_crew_command "$i"
			return
			;;
		esac
	done
	[[ $cur == '=' ]] && cur=''
	case $opt in
`

const bashTail = `	?*) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
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
`

func bashScript() string {
	var b strings.Builder
	var takers, names []string
	var letters strings.Builder
	for i := range options {
		o := &options[i]
		names = append(names, "--"+o.name)
		if o.value == "" {
			continue
		}
		takers = append(takers, "--"+o.name)
		letters.WriteString(o.short)
	}
	b.WriteString(bashHead)
	fmt.Fprintf(&b, "\t\t%s) opt=$word ;;\n", strings.Join(takers, " | "))
	b.WriteString(bashMiddle)
	for i := range options {
		if o := &options[i]; o.choices != nil {
			fmt.Fprintf(&b, "\t--%s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\") ;;\n", o.name, strings.Join(o.choices, " "))
		}
	}
	b.WriteString(bashTail)
	// Of a bundle, the last letter is open where no letter before it takes the rest.
	fmt.Fprintf(&b, "_crew_open() {\n\tlocal rest=${1#*[%[1]s]}\n\t[[ $1 == *[%[1]s]* && -z $rest ]] && printf '%%s' \"-$1\"\n}\n", letters.String())
	fmt.Fprintf(&b, "_crew_options='%s'\n", strings.Join(names, " "))
	b.WriteString("complete -F _crew crew\n")
	return b.String()
}

func zshScript() string {
	var b strings.Builder
	b.WriteString("#compdef crew\n# zsh completion for crew: source <(crew --completion zsh), or a file _crew in fpath\n")
	b.WriteString("_crew() {\n\t_arguments -s -S \\\n")
	for i := range options {
		o := &options[i]
		// In a specification brackets and colons have a meaning.
		text := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`, `\`, `\\`).Replace(o.text)
		action := ""
		switch {
		case o.choices != nil:
			action = fmt.Sprintf(":%s:(%s)", o.value, strings.Join(o.choices, " "))
		case o.value != "":
			action = fmt.Sprintf(":%s:_files", o.value)
		}
		long, short := "--"+o.name, "-"
		if o.value != "" {
			long, short = long+"=", "-%c+"
		} else {
			short = "-%c"
		}
		forms := []string{long}
		for _, c := range o.short {
			forms = append(forms, fmt.Sprintf(short, c))
		}
		for _, form := range forms {
			// A * lets an option come again: the last one counts, or all of -a do.
			fmt.Fprintf(&b, "\t\t%s \\\n", single("*"+form+"["+text+"]"+action, `'\''`))
		}
	}
	b.WriteString("\t\t'(-)1:command:_command_names -e' \\\n\t\t'*::arguments:_normal'\n}\n")
	// In fpath the file is the function's body and is called; sourced, it is told about.
	b.WriteString("if [[ $funcstack[1] == _crew ]]; then\n\t_crew \"$@\"\nelse\n\tcompdef _crew crew\nfi\n")
	return b.String()
}

// fishTail counts as split does: the first word that is neither an option nor
// the value of one is the command.
const fishTail = `# prints the command that the line holds so far, or fails
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
`

func fishScript() string {
	var b, rows strings.Builder
	var takers []string
	letters := ""
	for i := range options {
		o := &options[i]
		fmt.Fprintf(&rows, "complete -c crew -n 'not __crew_command >/dev/null' -l %s", o.name)
		for _, c := range o.short {
			fmt.Fprintf(&rows, " -s %c", c)
		}
		switch {
		case o.choices != nil:
			fmt.Fprintf(&rows, " -x -a '%s'", strings.Join(o.choices, " "))
		case o.value != "":
			rows.WriteString(" -r -F")
		}
		fmt.Fprintf(&rows, " -d %s\n", single(strings.ReplaceAll(o.text, `\`, `\\`), `\'`))
		if o.value != "" {
			takers = append(takers, "--"+o.name)
			letters += o.short
		}
	}
	b.WriteString("# fish completion for crew: crew --completion fish | source\n")
	fmt.Fprintf(&b, "set -g __crew_takers %s\nset -g __crew_letters %s\n", strings.Join(takers, " "), letters)
	b.WriteString(fishTail)
	b.WriteString(rows.String())
	return b.String()
}
