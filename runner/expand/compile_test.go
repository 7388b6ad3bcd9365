package expand

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestScripts checks the scripts that -t and --dry-run show.
func TestScripts(t *testing.T) {
	one, two, cols := recs("a.b"), recs("a\nb c"), recs("a,b c\nd,e")
	for _, c := range []struct {
		name    string
		cfg     Config
		records [][]string
		want    string
	}{
		{"harmless", Config{Words: []string{"echo {} > {.}.o; cat < {}"}}, one, "echo a.b > a.o; cat < a.b"},
		{"harmless in quotes", Config{Words: []string{`echo "it is {}" 'and {}'`}}, recs("a b"), `echo "it is a b" 'and a b'`},
		{"descriptor", Config{Words: []string{"echo {}>f; echo {}"}}, recs("2"), "echo '2'>f; echo 2"},
		{"command", Config{Words: []string{"{} x; y"}}, recs("if"), "'if' x; y"},
		{"keyword", Config{Words: []string{"time {}; y"}}, recs("if"), "time 'if'; y"},
		{"option-like", Config{Words: []string{"-x {};"}}, one, " -x a.b;"},
		{"number", Config{Words: []string{`echo {#} "$x{#}" $x{#} {#}>f $(({#}+1)) '{#}' # {#}`}}, one,
			`_crew1=5; echo "${_crew1?}" "$x${_crew1?}" $x"${_crew1?}" "${_crew1?}">f $((${_crew1?}+1)) ''"${_crew1?}"'' # {#}`},
		{"variable of the shell", Config{Words: []string{"echo ${#} ${1} ${n} {n};"}, Names: []string{"n"}}, one, "echo ${#} ${1} ${n} a.b;"},
		{"escaped", Config{Words: []string{`echo \{} {};`}}, one, `echo \{} a.b;`},
		{"comment", Config{Words: []string{"echo {} # {} it's"}}, recs("a\tb"), "echo 'a\tb' # {} it's"},
		{"-I", Config{Words: []string{"find {} -exec x {} %;%"}, Replace: "%;%"}, one, "find {} -exec x {} a.b"},
		{"unknown", Config{Words: []string{"echo {foo} '{a,b}' {};"}}, one, "echo {foo} '{a,b}' a.b;"},

		{"append", Config{Words: []string{"x | grep -c"}, Insert: AtEnd}, recs("a b,c"), "x | grep -c 'a b' c"},
		{"append trimmed", Config{Words: []string{"x;\ny -n \n"}, Insert: AtEnd}, one, "x;\ny -n a.b"},
		{"append all", Config{Words: []string{"x && y"}, Insert: AtEnd, Batch: true}, cols, "x && y a 'b c' d e"},
		{"append after redirection", Config{Words: []string{"x -y > f"}, Insert: AtEnd}, one, "x -y > f a.b"},
		{"append to quoted command", Config{Words: []string{`"my prog" -x`}, Insert: AtEnd}, one, `"my prog" -x 'a.b'`},
		{"append beside comment", Config{Words: []string{"x -y\n"}, Insert: Nowhere}, one, "x -y\n"},
		{"append where {} is escaped", Config{Words: []string{`x \{}`}, Insert: AtEnd}, one, `x \{} a.b`},
		{"no append for {#}", Config{Words: []string{"x {#};"}, Insert: AtEnd}, one, "x 5;"},

		{"batch words", Config{Words: []string{`x {} -{}- "q {}" '{.}' {#};`}, Batch: true}, two, `x a 'b c' -a- -'b c'- "q a" "q b c" 'a' 'b c' 5;`},
		{"batch columns", Config{Words: []string{`x {2}={1};`}, Batch: true}, cols, `x 'b c=a' e=d;`},
		{"batch nth", Config{Words: []string{`x {2} {1} {3};`}, Batch: true}, two, `x 'b c' a '';`},
		{"batch substitution", Config{Words: []string{`x $(basename -a {}) "$(y {})";`}, Batch: true}, two, `x $(basename -a a 'b c') "$(y a 'b c')";`},
		{"batch nested", Config{Words: []string{`x {}"$(y {})"z;`}, Batch: true}, two, `x 'a'"$(y a)"z 'b c'"$(y 'b c')"z;`},
		{"batch loop", Config{Words: []string{`for i in {}; do x; done`}, Batch: true}, two, `for i in a 'b c'; do x; done`},
		{"batch assignment", Config{Words: []string{`v={}; w="{}"`}, Batch: true}, two, `v='a b c'; w="a b c"`},
		{"batch document", Config{Words: []string{"cat <<E\n{}\nE"}, Batch: true}, two, "_crew1='a b c'; cat <<E\n${_crew1?}\nE"},
		{"batch of one", Config{Words: []string{"x {};"}, Batch: true}, one, "x a.b;"},

		{"empty", Config{Words: []string{`x {} a{}b "{}" '{}' {#}; v={}`}, Insert: Nowhere}, one, `x  a''b "" '' 5; v=''`},
		{"empty document", Config{Words: []string{"cat <<E\n<{}>\nE"}, Insert: Nowhere}, one, "cat <<E\n<>\nE"},

		{"shared reference", Config{Words: []string{"cat <<E\n{} {} {.}\nE"}}, one, "_crew1=a.b _crew2=a; cat <<E\n${_crew1?} ${_crew1?} ${_crew2?}\nE"},
		{"error left to the shell", Config{Words: []string{"x {#} )"}}, one, "x 5 )"},
		{"taken reference", Config{Words: []string{"cat <<_crew\n{}\n_crew"}}, one, "_crew_1=a.b; cat <<_crew\n${_crew_1?}\n_crew"},
		{"backquotes", Config{Words: []string{"x `y \"{}\" \\$z`"}}, one, `x $(y "a.b" $z)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv, shell := shownBy(must(t, c.cfg), Values{Records: c.records, Seq: 5})
			require.True(t, shell)
			require.Equal(t, []string{"/bin/sh", "-c", c.want}, argv)
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"cat <<{}\nx\n{}", ""},
		{"echo $[{}]", "--shell bash"},
		{"(({}>1))", "--shell bash"},
		{"x[{}]=1", ""},
		{"echo ${x@{}}", ""},
		{"[[ -v {} ]]", "name"},
		{"[ -v {} ]", "name"},
		{"test -R {};", "name"},
		{"printf -v {} x;", "printf -v"},
		{"echo $'{}'", "$'…'"},
		{`echo $"{}"`, `$"…"`},
		{"echo ${}", "dollar sign"},
		{`echo "${}"`, "dollar sign"},
		{"echo ${.}", "dollar sign"},
		{"echo ${%}", "dollar sign"},
		{"echo ${u:-${}}", "dollar sign"},
		{"{}=x;", "variable"},
		{"a{}=x y;", "variable"},
		{"a{#}=x eval {};", "name"},
		{"{}() { x; }", "function"},
		{"function {} { x; }", "function"},
		{"for {} in a; do x; done", "variable"},
		{"read {};", "name of a variable"},
		{"unset {};", "name of a variable"},
		{"export {};", "name of a variable"},
		{"export {}=1;", "var name"},
		{"readonly {};", "name of a variable"},
		{"declare -a x=({});", "declare"},
		{"PS4={}; set -x", "PS4"},
		{"x >&{}", "descriptor"},
		{"x {}>&1 <&{}", "descriptor"},
		{"eval {};", "run by eval"},
		{`\eval {};`, "eval"},
		{`"ev"al {};`, "eval"},
		{"command eval {};", "eval"},
		{"builtin -- eval {};", "eval"},
		{"x=1 eval {};", "eval"},
		{"alias x={};", "alias"},
		{"sh -c {};", `sh -c '… "$1"' sh {}`},
		{"timeout 5 fish -c 'x {}'", "fish -c"},
		{`$SHELL -c 'x {}'`, "not known what is run"},
		{`"${BASH}" -c 'x {}'`, "not known what is run"},
		{"sh <<E\nx {}\nE", "text for a shell"},
		{"sudo bash -s <<E\nx {}\nE", "text for a shell"},
		{"bash <<<'x {}'", "text for a shell"},
		{"echo *({});", "pattern"},
		{"echo @(a|{});", "pattern"},
		{"coproc {} { x; }", ""},
		{`echo "${u:-"{}"}"`, "inner quotes"},
		{`echo "${u:-'{}'}"`, "inner quotes"},
		{`echo "${u#'{}'}"`, "inner quotes"},
		{`echo ${u:-\{}}`, ""},
		{"cat <<E\n${x#{}}\nE", "here-document"},
		{"cat <<E\n`x \\\"{}\\\"`\nE", "$(…)"},
		{"x `y {} \\\\`", ""},
		{"echo {} )", "syntax error"},
		{"echo '{}", "syntax error"},
		{"if {}; then x", "syntax error"},
		{`$(command -v sh) -c 'p {}'`, "not known what is run"},
		{`"$s" 'p {}'`, "not known what is run"},
		{`$s "p {}"`, "not known what is run"},
		{"sh $o 'p {}'", "not known what is run"},
		{"sh $o {}", "which options"},
		{`sh $'\x2dc' {}`, ""},
		{`sh "$()"-c 'p {}'`, ""},
		{"coproc eval {};", ""},
		{"zsh -c{#} {}", "which options"},
		{"{1} {2};", "given values"},
		{"unset PS4; : ${PS4:={}}", "PS4"},
		{"echo $((x{}))", "part of a number"},
		{"echo $(({}{}))", "part of a number"},
		{"printf -v x %s {};", "name of the variable"},
		{"echo 'rm {}' | sh", "text for a shell"},
		{"bash <(echo {})", "text for a shell"},
		{"source /dev/stdin <<<{}", "text for a shell"},
		{`sh -c "x {} $y"`, "parts of which are not known"},
		{"env -S 'x {}'", "env -S"},
		{`x "$$({})"`, "$$("},
		{"cat <<E\nx \\\n{}\nE", "continued lines"},
		{"echo {} <<E\n\\\nE\nE", "continued lines"},
	} {
		t.Run(c.script, func(t *testing.T) {
			_, err := New(Config{Words: []string{c.script}})
			require.ErrorContains(t, err, c.want)
			require.Contains(t, err.Error(), ": ")
			require.NotContains(t, err.Error(), "\ue000")
		})
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Words: []string{""}}, "empty"},
		{Config{Words: []string{"", "x"}}, "empty"},
		{Config{Words: []string{" ", "\t"}}, "empty"},
		{Config{Words: []string{"{}"}, Insert: Nowhere}, "nothing is left"},
		{Config{Words: []string{"x"}, Shell: "  "}, "no name"},
		{Config{Words: []string{"x {}"}, Shell: "ssh host bash"}, "joins its arguments"},
		{Config{Words: []string{"x > {}"}, Batch: true}, "several records"},
		{Config{Words: []string{"print {}"}, Shell: "python3"}, "sys.argv"},
		{Config{Words: []string{"echo {}"}, Shell: "/usr/bin/fish"}, "$argv[1]"},
		{Config{Words: []string{"echo {1}"}, Shell: "csh"}, "csh"},
		{Config{Words: []string{"echo {}"}, Shell: "zsh"}, `write "$1"`},
		{Config{Words: []string{"[ {1} {2} ]"}}, "operator"},
		{Config{Words: []string{"[ {} ]"}, Batch: true}, ""},
		{Config{Words: []string{"declare -F f; x={}"}, Shell: "bash"}, ""},
		{Config{Words: []string{"x # end"}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{"x;"}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{"x &"}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{"x &&"}, Insert: AtEnd}, "must be followed by"},
		{Config{Words: []string{"(x)"}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{"x=1"}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{"if x; then y; fi"}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{"cat <<E\nx\nE"}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{`x \`}, Insert: AtEnd}, "write {}"},
		{Config{Words: []string{"x '"}, Insert: AtEnd}, "closing quote"},
		{Config{Words: []string{"if true"}, Insert: AtEnd}, "followed by `then`"},
		{Config{Words: []string{"echo ("}, Insert: AtEnd}, "syntax error"},
		{Config{Words: []string{"echo # {}"}, Insert: AtEnd}, "{} stands in a comment"},
		{Config{Words: []string{"sh", "-c"}, Insert: AtEnd}, "no command"},
		{Config{Words: []string{"sh", "-c", "{}"}}, "no command"},
		{Config{Words: []string{"sh -c {}"}}, "no command"},
		{Config{Words: []string{"ssh", "host", "{}"}}, "--stdin ssh"},
		{Config{Words: []string{"ssh", "host"}, Insert: AtEnd}, "--stdin ssh"},
		{Config{Words: []string{"ssh"}, Insert: AtEnd}, ""},
		{Config{Words: []string{"ksh", "{}"}}, "no such file"},
		{Config{Words: []string{"ksh93", "-x"}, Insert: AtEnd}, "no such file"},
		{Config{Words: []string{"ksh", "script", "{}"}}, ""},
		{Config{Words: []string{"watch", "-n1x", "p {}"}}, ""},
		{Config{Words: []string{"watch", "{}"}}, "no command"},
		{Config{Words: []string{"watch", "-x", "{}"}}, ""},
		{Config{Words: []string{"parallel", "echo {}"}}, "a script for parallel"},
		{Config{Words: []string{"crew", "echo {}", ":::", "1"}}, "a script for crew"},
		{Config{Words: []string{"crew", "-j2", "gzip", "{}"}}, ""},
		{Config{Words: []string{"tmux", "new", "-d", "x {}"}}, "a script for tmux"},
		{Config{Words: []string{"ssh", "{}"}}, ""},
		{Config{Words: []string{"env", "-i", "bash", "-ec", "{1}"}}, "no command"},
		{Config{Words: []string{"sh", "-c", "eval {}"}}, "run by eval"},
		{Config{Words: []string{"fish", "-c", "echo {}"}}, "fish"},
	} {
		if c.want == "" {
			must(t, c.cfg)
			continue
		}
		t.Run(strings.Join(c.cfg.Words, " "), func(t *testing.T) {
			_, err := New(c.cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestNumbers checks where a value must be a number, and how it is written there.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ shell, script, value, want string }{
		{"", "echo $(({} + 1))", "5", "echo $((5 + 1))"},
		{"", "echo $((1-{}))", "-5", "echo $((1- -5))"},
		{"", "head -n $(({}*2)) f", "3", "head -n $((3*2)) f"},
		{"", "[ {} -gt 5 ]", "-7", "[ '-7' -gt 5 ]"},
		{"", `test 5 -le "{}";`, "7", `test 5 -le "7";`},
		{"", "exit {};", "3", "exit 3;"},
		{"", "x={}; echo $((x+1))", "4", "x='4'; echo $((x+1))"},
		{"", "COLUMNS={} ls | cat", "80", "COLUMNS='80' ls | cat"},
		{"bash", "(( {} > 3 ))", "4", "(( 4 > 3 ))"},
		{"bash", "[[ {} -gt 3 ]]", "4", "[[ 4 -gt 3 ]]"},
		{"bash", "echo ${x:{}:1}", "-4", "echo ${x:-4:1}"},
		{"bash", "a[{}]=b", "4", "a[4]=b"},
		{"bash", "x & wait -n -p {}", "4", "x & wait -n -p 4"},
		{"bash", "declare -i x={};", "4", "declare -i x='4';"},
		{"bash", "for ((i=0;i<{};i++)); do x; done", "4", "for ((i=0;i<4;i++)); do x; done"},
		{"bash", "let x={}+1;", "4", "let x=4+1;"},
	} {
		tm := must(t, Config{Words: []string{c.script}, Shell: c.shell})
		var tk task.Task
		tm.Fill(&tk, Values{Records: [][]string{{c.value}}})
		require.NoError(t, tk.Err, c.script)
		require.Equal(t, c.want, tk.Argv[2])
		for _, bad := range []string{"", "x", "08", "-", "--1", "+1", "1 ", " 1", "1\n", "1.", ".5", "1e3", "0x10", "a[$(x)]", "٣", "1.2.3"} {
			tm.Fill(&tk, Values{Records: [][]string{{bad}}})
			require.ErrorContains(t, tk.Err, "only a decimal number", "%s with %q", c.script, bad)
		}
		tm.Fill(&tk, Values{Records: [][]string{{"1234567890123456789"}}})
		require.ErrorContains(t, tk.Err, "18 digits")
	}
}

// TestRewritten checks scripts that have to be rewritten before values can stand in
// them.
func TestRewritten(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"a \\\n {} \\\n c", "a  'x;y'  c"},
		{"a\\\nb '\\\n'{} # c \\\nd", "ab '\\\n''x;y' # c \nd"},
		{"a \"b\\\n{}\" \\\\\nc", "a \"bx;y\" \\\\\nc"},
		{"cat <<'E'\n$a `b` \\ {} \\\nE", "_crew1='x;y'; cat <<E\n\\$a \\`b\\` \\\\ ${_crew1?} \\\\\nE"},
		{`sh -c "a {}" | b`, `sh -c '_crew1='\''x;y'\''; a "${_crew1?}"' | b`},
		{`sh -c 'a "{}"' sh {};`, `sh -c '_crew1='\''x;y'\''; a "${_crew1?}"' sh 'x;y';`},
		{`trap 'rm -f {}' EXIT;`, `_crew1='x;y'; trap 'rm -f "${_crew1?}"' EXIT;`},
		{`eval a '"$b" {}';`, `_crew1='x;y'; eval 'a "$b" "${_crew1?}"';`},
		{"a\r\n{}\r", "a\r\n'x;y'\r"},
	} {
		argv, _ := shownBy(must(t, Config{Words: []string{c.script}}), Values{Records: [][]string{{"x;y"}}})
		require.Equal(t, c.want, argv[2], c.script)
	}
}

// TestInline checks commands of words that give a shell a script.
func TestInline(t *testing.T) {
	v := Values{Records: [][]string{{"a;b'c"}}, Seq: 1}
	const q = `'a;b'\''c'`
	for _, c := range []struct{ words, want []string }{
		{[]string{"sh", "-c", "echo {}"}, []string{"sh", "-c", "_crew1=" + q + `; echo "${_crew1?}"`}},
		{[]string{"sh", "-c", `echo "{}"`, "{}"}, []string{"sh", "-c", "_crew1=" + q + `; echo "${_crew1?}"`, "a;b'c"}},
		{[]string{"env", "A=1", "/bin/bash", "-x", "-c", "cat <<E\n{}\nE"}, []string{"env", "A=1", "/bin/bash", "-x", "-c", "_crew1=" + q + "; cat <<E\n${_crew1?}\nE"}},
		{[]string{"xargs", "sh", "-c", "x {}"}, []string{"xargs", "sh", "-c", "_crew1=" + q + `; x "${_crew1?}"`}},
		{[]string{"watch", "-n", "1", "x", "{}"}, []string{"watch", "-n", "1", "_crew1=" + q + `; x "${_crew1?}"`}},
		{[]string{"sh", "-c", `echo "$1" ${1}`, "sh", "{}"}, []string{"sh", "-c", `echo "$1" ${1}`, "sh", "a;b'c"}},
		{[]string{"sh", "{}"}, []string{"sh", "a;b'c"}},
		{[]string{"sudo", "bash", "-o", "pipefail", "{}", "x"}, []string{"sudo", "bash", "-o", "pipefail", "a;b'c", "x"}},
		{[]string{"sh"}, []string{"sh", "a;b'c"}},
		{[]string{"sh", "f"}, []string{"sh", "f", "a;b'c"}},
		{[]string{"sh", "-e", "f", "-c", "{}"}, []string{"sh", "-e", "f", "-c", "a;b'c"}},
		{[]string{"gcc", "-c", "{}"}, []string{"gcc", "-c", "a;b'c"}},
		{[]string{"python3", "-c", "x {}"}, []string{"python3", "-c", "x a;b'c"}},
		{[]string{"echo", "sh", "-c", "{}"}, []string{"echo", "sh", "-c", "a;b'c"}},
		{[]string{"bash", "--", "-c", "{}"}, []string{"bash", "--", "-c", "a;b'c"}},
	} {
		argv, shell := shownBy(must(t, Config{Words: c.words, Insert: AtEnd}), v)
		require.False(t, shell)
		require.Equal(t, c.want, argv)
	}
	argv := must(t, Config{Words: []string{"sh", "-c", `echo ${1} $1`}, Insert: AtEnd}).Argv(v)
	require.Equal(t, []string{"sh", "-c", "echo ${1} $1", "a;b'c"}, argv)
	argv = must(t, Config{Words: []string{"fish", "-c", "echo {#}"}}).Argv(v)
	require.Equal(t, []string{"fish", "-c", "echo 1"}, argv)
}

// TestForeignShell checks that other shells and languages get values as arguments,
// even values that look like options.
func TestForeignShell(t *testing.T) {
	for _, c := range []struct{ shell, script string }{
		{"fish", `for a in $argv; echo $a; end`},
		{"python3", `import sys; print("\n".join(sys.argv[1:]))`},
		{"perl -le", `print for @ARGV`},
		{"bash", `printf '%s\n'`},
	} {
		if _, err := exec.LookPath(strings.Fields(c.shell)[0]); err != nil {
			continue
		}
		argv, shell := shownBy(must(t, Config{Words: []string{c.script}, Shell: c.shell, Insert: AtEnd}), Values{Records: [][]string{{"-c", "echo pwned", "$(x)"}}})
		require.False(t, shell)
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		require.NoError(t, err)
		require.Equal(t, "-c\necho pwned\n$(x)\n", string(out), c.shell)
	}
}

// TestBytes checks that a script may hold any bytes, and that they stay the same.
func TestBytes(t *testing.T) {
	script := "printf '%s|' '\xff\ue000\xfe' \"\xc3\ue001\" {} \\{} \xe9; : \uf6ff # {}\xff"
	argv := must(t, Config{Words: []string{script}}).Argv(Values{Records: [][]string{{"\xff'"}}})
	require.Equal(t, "_crew1=${1}; shift; "+strings.Replace(script, "{}", `"${_crew1?}"`, 1), argv[2])
	argv = must(t, Config{Words: []string{"x \"{\xff}\" {}; y"}, Fields: true}).Argv(Values{Records: recs("a")})
	require.Equal(t, "_crew1=${1} _crew2=${2}; shift 2; x \"${_crew1?}\" \"${_crew2?}\"; y", argv[2])
	all := "\ufffd"
	for r := rune(0xe000); r <= 0xf8ff; r++ {
		all += string(r)
	}
	argv = must(t, Config{Words: []string{"x {}" + all + "; y"}}).Argv(Values{Records: recs("a")})
	require.Equal(t, "_crew1=${1}; shift; x \"${_crew1?}\""+all+"; y", argv[2])
}

// FuzzTemplate checks that no template makes the package panic, and that a command
// does not grow by more than Growth says.
func FuzzTemplate(f *testing.F) {
	for _, c := range contexts {
		f.Add(c.script, "", uint8(0))
	}
	for _, s := range []string{"cat <<E\n`{}`", "${{}}", "`\\`{}`", "$({}", "{}\x00", "\\\r\n{}", "<<-{}\n", "{%}={}", "a[{}]+=(b)"} {
		f.Add(s, "%", uint8(3))
		f.Add(strings.ReplaceAll(s, "{}", "{out}"), "", uint8(69))
	}
	f.Fuzz(func(t *testing.T, script, replace string, bits uint8) {
		cfg := Config{Words: []string{script}, Replace: replace, Insert: Insert(bits & 3), Batch: bits&4 != 0, Fields: bits&8 != 0}
		if bits&16 != 0 {
			cfg.Words = []string{"sh", "-c", script}
		}
		if bits&32 != 0 {
			cfg.Shell = "zsh"
		}
		if bits&64 != 0 {
			cfg.Outs = []*Text{compiled(t, "{}'{1}", Config{})}
		}
		tm, err := New(cfg)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		v := Values{Records: [][]string{{"a'b\n", "$(c)"}, {"d"}}, Seq: 3}
		require.NotEmpty(t, tm.Argv(v))
		tm.Command()
		if text, err := NewText(script, cfg); err == nil {
			text.Expand(v)
		}
	})
}
