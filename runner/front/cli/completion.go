package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Completion lists the possible completions of a word.
type Completion struct {
	Runs  bool   // also the names of runs
	Tasks bool   // also the numbers of the tasks of Run
	Run   string // the run that was named; "" for the only one

	shell  string // a value of --completion; determines the form of Text
	lead   string // printed before each word
	prefix string // prefix of all words, after lead
	words  []Candidate

	// kind names the things that the shell completes in addition to the words, or instead: files, dirs,
	// programs, or "command N" for the arguments of the command that starts at word N.
	kind string
}

// Candidate is a possible word, with its description.
type Candidate struct{ Word, Text string }

// incomplete stands for the word to be completed.
const incomplete = "\x00"

// complete completes the last word of a command line. words are the words after crew.
func complete(shell string, words []string) *Completion {
	words, at := joinValues(words, shell == "bash")
	x := &Completion{shell: shell, kind: "words"}
	if len(words) == 0 {
		return x
	}
	last := len(words) - 1
	x.prefix = words[last]
	c, before := findCommand(words[:last])
	l, err := c.split(append(before[:len(before):len(before)], incomplete))
	if err != nil {
		return x
	}
	if n := len(l.uses); n > 0 && l.uses[n-1].value == incomplete {
		x.addValues(l.uses[n-1].opt)
		return x
	}
	if strings.HasPrefix(x.prefix, "-") && !l.dashDash && (c.optionsAnywhere() || len(l.operands) == 1) {
		x.addOptions(c)
		return x
	}
	if last == 0 {
		for _, c := range commands {
			if isCommand(c.name) {
				x.add(c.name, c.text)
			}
		}
	}
	for _, u := range l.uses {
		if u.opt.name == "run" {
			x.Run = u.value
		}
	}
	x.addOperands(c, len(l.operands), at[last+1-len(l.operands)])
	return x
}

// joinValues returns the number of each word in the shell's line. If split, it joins the words of
// --option=value, which readline splits into three.
func joinValues(words []string, split bool) (joined []string, at []int) {
	for i, w := range words {
		n := len(joined) - 1
		if split && n >= 0 && strings.HasPrefix(joined[n], "--") && (w == "=" && i == n+1 || strings.HasSuffix(joined[n], "=")) {
			joined[n] += w
		} else {
			joined, at = append(joined, w), append(at, i+1)
		}
	}
	return joined, at
}

// add adds a word if it has the prefix and is new.
func (x *Completion) add(word, text string) {
	if same := func(c Candidate) bool { return c.Word == word }; strings.HasPrefix(word, x.prefix) && !slices.ContainsFunc(x.words, same) {
		x.words = append(x.words, Candidate{word, text})
	}
}

// addOptions adds the options of a command, or the values of the option in the prefix.
func (x *Completion) addOptions(c *command) {
	if name, value, attached := strings.Cut(x.prefix, "="); attached {
		if o := c.long(strings.TrimLeft(name, "-")); o != nil {
			if x.prefix = value; x.shell == "fish" {
				x.lead = name + "="
			}
			x.addValues(o)
		}
		return
	}
	for _, o := range options() {
		if c.takes(o) {
			x.add("--"+o.name, o.text)
		}
	}
}

// addValues adds the values of an option.
func (x *Completion) addValues(o *option) {
	switch {
	case o.choices != "":
		for choice := range strings.FieldsSeq(o.choices) {
			x.add(choice, "")
		}
	case o.value == takesFarRun:
		x.Runs = true
	case o.name == "retry-on":
		x.addItems(slices.Sorted(maps.Keys(retryOutcomes)))
	case o.name == "ssh" && !strings.HasPrefix(x.prefix, ".") && !strings.HasPrefix(x.prefix, "/"):
		x.addItems(sshHosts())
	case o.value == "DIR":
		x.kind = "dirs"
	case hasWord("FILE PATH CMD URL HOSTS", o.value), hasWord("makes stdout-to reads transfer-file return", o.name):
		x.kind = "files"
	}
}

// addItems adds items for the end of a list with commas. N/ may stand before an item.
func (x *Completion) addItems(items []string) {
	before := x.prefix[:strings.LastIndexByte(x.prefix, ',')+1]
	if slots := slotsOf(x.prefix[len(before):]); slots != "" {
		before += slots + "/"
	}
	for _, item := range items {
		x.add(before+item, "")
	}
}

// sshHosts returns the hosts in the user's ssh configuration and known_hosts, sorted.
func sshHosts() (hosts []string) {
	home, _ := os.UserHomeDir()
	for name, line := range map[string]string{"config": `(?im)^[ \t]*host[ \t=]+(.*)`, "known_hosts": `(?m)^([^@ ]+) `} {
		text, _ := os.ReadFile(filepath.Join(home, ".ssh", name))
		for _, found := range regexp.MustCompile(line).FindAllStringSubmatch(string(text), -1) {
			hosts = append(hosts, strings.FieldsFunc(found[1], func(r rune) bool { return strings.ContainsRune(" \t\",", r) })...)
		}
	}
	// Drop patterns, hashed names, comments, and names with a port.
	hosts = slices.DeleteFunc(hosts, func(h string) bool { return strings.ContainsAny(h, "*?!|#[") })
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// addOperands adds the possible nth operands of a command. first is the number of the first operand's word.
func (x *Completion) addOperands(c *command, n, first int) {
	x.Tasks = c.takesTasks()
	switch c.operands {
	case takesCommand:
		if x.kind = fmt.Sprint("command ", first); n == 1 {
			x.kind = "programs"
		}
	case takesWork, takesFile, takesSources:
		x.kind = "files"
	case takesDir:
		x.kind = "dirs"
	case takesRun, takesSize:
		x.Runs = c.operands == takesRun && n == 1 || n == 2
	case takesVerb:
		for _, v := range c.verbs() {
			x.add(v, commandNamed(c.name+" "+v).text)
		}
	case takesTopic:
		for _, topic := range topics() {
			if !strings.Contains(topic.Word, " ") {
				x.add(topic.Word, topic.Text)
			}
		}
	}
}

// Text returns the completion in the form for completionScripts: a line with the kind, and a line
// for each word. more holds the runs and tasks, if x asks for them.
func (x *Completion) Text(more []Candidate) string {
	for _, m := range more {
		x.add(m.Word, m.Text)
	}
	var b strings.Builder
	b.WriteString(x.kind + "\n")
	for _, w := range x.words {
		text, _, _ := strings.Cut(w.Text, "\n")
		switch {
		case x.shell == "zsh":
			w.Word = strings.ReplaceAll(w.Word, ":", `\:`) + ":" + text
		case x.shell == "fish" && text != "":
			w.Word += "\t" + text
		}
		b.WriteString(x.lead + w.Word + "\n")
	}
	return b.String()
}

// completionScripts are the scripts that make a shell complete crew's command lines.
var completionScripts = map[string]string{"bash": bashScript, "fish": fishScript, "zsh": zshScript}

const bashScript = `# bash completion for crew: eval "$(crew --completion bash)"
_crew() {
	local list cur=${COMP_WORDS[COMP_CWORD]}
	[[ $cur != '=' ]] || cur='' # readline makes three words of --output=line
	mapfile -t list < <("${COMP_WORDS[0]}" --complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	COMPREPLY=("${list[@]:1}")
	case ${list[0]} in
	programs) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$cur") ;;
	command*)
		if declare -F _command_offset >/dev/null; then
			_command_offset "${list[0]#command }"
			return
		fi
		;;&
	files | command*) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	dirs) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	esac
}
complete -F _crew crew
`

// In a file in fpath the script is the body of _crew. If it is sourced, it registers the function.
const zshScript = `#compdef crew
# zsh completion for crew: source <(crew --completion zsh), or a file _crew in fpath
_crew() {
	local -a list=("${(@f)$($words[1] --complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
	local kind=$list[1]
	shift list
	[[ $kind == command* || $PREFIX != --*=* ]] || compset -P '*='
	case $kind in
	files) _files ;;
	dirs) _path_files -/ ;;
	programs) _command_names -e ;;
	command*)
		shift ${kind#command } words
		(( CURRENT -= ${kind#command } ))
		_normal
		;;
	esac
	(( $#list == 0 )) || _describe word list
}
if [[ $funcstack[1] == _crew ]]; then
	_crew "$@"
else
	compdef _crew crew
fi
`

const fishScript = `# fish completion for crew: crew --completion fish | source
function __crew_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l list ($words[1] --complete fish $words[2..] "$word" 2>/dev/null)
    switch "$list[1]"
        case files
            set -l lead (string match -r -- '^--[^=]*=' "$word")
            printf "$lead%s\n" (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$word"))
        case dirs
            set -l lead (string match -r -- '^--[^=]*=' "$word")
            printf "$lead%s\n" (__fish_complete_directories (string replace -r -- '^--[^=]*=' '' "$word"))
        case programs
            __fish_complete_command
        case 'command*'
            set -l first (math (string replace 'command ' '' -- $list[1]) + 1)
            complete -C (string join ' ' -- (string escape -- $words[$first..]) "$word")
    end
    printf '%s\n' $list[2..]
end
complete -c crew -f -a '(__crew_complete)'
`
