package expand

import (
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// example is a template, or another text with placeholders, and the expected result.
type example struct {
	Config
	Outs       []string
	Caps       bool
	Text, Path string
	Records    [][]string
	Members    map[string]string
	Program    string // expected result of Program; "?" if it varies
	Want       string // the displayed command, with ¦ between words, or a ! and the error
	Run        string // the command that is run, if it differs, with T. for a temporary name
}

var (
	caps = []task.Cap{{Name: "gpu", Units: []string{"0", "GPU-1f.x", "_"}}, {Name: "db", Units: []string{"0"}}}
	held = []task.Units{{Name: "db", Held: []string{"0"}}, {Name: "gpu", Held: []string{"0", "1"}}}
)

const temp = ".crew-12345678."

// fill returns the displayed command of an example and, if it differs, the command to run.
func (e example) fill(t testing.TB) (want, run string) {
	cfg, tk := e.Config, task.Task{Makes: &task.Making{Temp: temp}}
	for _, s := range e.Outs {
		cfg.Outs = append(cfg.Outs, compiled(t, s, Config{}))
	}
	if e.Caps {
		cfg.Caps = caps
	}
	v := Values{Records: e.Records, Fields: e.Members, Seq: 7}
	if e.Text+e.Path != "" {
		newText := NewText
		if e.Path != "" {
			newText = NewPath
		}
		text, err := newText(e.Text+e.Path, cfg)
		if err != nil {
			return "!" + err.Error(), ""
		}
		if text.FillTag(&tk, v); e.Path != "" {
			dir, constant := text.Dir()
			return text.Expand(v) + "¦" + dir + map[bool]string{true: "¦constant"}[constant], ""
		}
		return tk.TagOn(3, "web", held), ""
	}
	tm, err := New(cfg)
	if err != nil {
		require.Contains(t, err.Error(), ": ", "what to do")
		return "!" + err.Error(), ""
	}
	if program, ok := tm.Command(); e.Program != "" && (ok || e.Program != "?") {
		require.Equal(t, e.Program, program)
	}
	if tm.Fill(&tk, v); tk.Err != nil {
		return "!" + tk.Err.Error(), ""
	}
	require.Equal(t, tk.Argv[0] == "/bin/sh" && len(tk.Argv) == 3 && e.Shell == "", tk.Shell)
	want = strings.Join(tk.ArgvOn(3, "web", held), "¦")
	if run = strings.ReplaceAll(strings.Join(tk.ExecOn(3, "web", held), "¦"), temp, "T."); e.Outs == nil {
		run = ""
	}
	return want, run
}

func TestTemplates(t *testing.T) {
	crewtest.Examples(t, "testdata/templates.txt", func(t *testing.T, e example) {
		want, run := e.fill(t)
		require.Equal(t, e.Want, want)
		require.Equal(t, e.Run, run)
	})
}

func must(t testing.TB, cfg Config) *Template {
	t.Helper()
	tm, err := New(cfg)
	require.NoError(t, err)
	return tm
}

func compiled(t testing.TB, s string, cfg Config) *Text {
	t.Helper()
	text, err := NewText(s, cfg)
	require.NoError(t, err)
	return text
}

// Argv returns the command to run for v.
func (t *Template) Argv(v Values) []string {
	var tk task.Task
	t.Fill(&tk, v)
	return tk.ExecOn(0, "", nil)
}

// shownBy returns the displayed form of a command.
func shownBy(tm *Template, v Values) []string {
	var tk task.Task
	tm.Fill(&tk, v)
	return tk.Argv
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
		argv := shownBy(must(t, Config{Words: []string{c.script}, Shell: c.shell, Insert: AtEnd}), Values{Records: [][]string{{"-c", "echo pwned", "$(x)"}}})
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		require.NoError(t, err)
		require.Equal(t, "-c\necho pwned\n$(x)\n", string(out), c.shell)
	}
}

// TestBytes checks that a script may hold any bytes, and that they stay the same.
func TestBytes(t *testing.T) {
	script := "printf '%s|' '\xff\ue000\xfe' \"\xc3\ue001\" {} \\{} \xe9; : \uf6ff # {}\xff"
	argv := must(t, Config{Words: []string{script}}).Argv(Values{Records: [][]string{{"\xff'"}}})
	require.Equal(t, "_crew1=${1}; shift 1; "+strings.Replace(script, "{}", `"${_crew1?}"`, 1), argv[2])
	argv = must(t, Config{Words: []string{"x \"{\xff}\" {}; y"}, Columns: Columns{Fields: true}}).Argv(Values{Records: [][]string{{"a"}}})
	require.Equal(t, "_crew1=${1} _crew2=${2}; shift 2; x \"${_crew1?}\" \"${_crew2?}\"; y", argv[2])
	all := "\ufffd"
	for r := rune(0xe000); r <= 0xf8ff; r++ {
		all += string(r)
	}
	argv = must(t, Config{Words: []string{"x {}" + all + "; y"}}).Argv(Values{Records: [][]string{{"a"}}})
	require.Equal(t, "_crew1=${1}; shift 1; x \"${_crew1?}\""+all+"; y", argv[2])
}

// FuzzPath checks that no value leaves the directory, and that two values never make the same path.
func FuzzPath(f *testing.F) {
	f.Add("..", "/", "")
	f.Add(`\`, `\\`, `\_`)
	p, err := NewPath("d/.{1}/{2}{2}", Config{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		dir := p.Expand(Values{Records: [][]string{{a, b}}})
		require.Equal(t, 2, strings.Count(dir, "/"))
		require.Equal(t, dir, path.Clean(dir))
		require.NotContains(t, dir, "\x00")
		require.Equal(t, b == c, dir == p.Expand(Values{Records: [][]string{{a, c}}}))
	})
}

// FuzzTemplate checks that no template makes the package panic.
func FuzzTemplate(f *testing.F) {
	for _, c := range contexts {
		f.Add(c.Script, "", uint8(0))
	}
	for _, s := range []string{"cat <<E\n`{}`", "${{}}", "`\\`{}`", "$({}", "{}\x00", "\\\r\n{}", "<<-{}\n", "{%}={}", "a[{}]+=(b)"} {
		f.Add(s, "%", uint8(3))
		f.Add(strings.ReplaceAll(s, "{}", "{out}"), "", uint8(69))
	}
	f.Fuzz(func(t *testing.T, script, replace string, bits uint8) {
		cfg := Config{Words: []string{script}, Replace: replace, Insert: Insert(bits & 3), Batch: bits&4 != 0, Columns: Columns{Fields: bits&8 != 0}}
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
