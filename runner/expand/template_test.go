package expand

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// recs makes one record of each line, with a column for each comma-separated field.
func recs(s string) [][]string {
	var out [][]string
	for _, l := range strings.Split(s, "\n") {
		out = append(out, strings.Split(l, ","))
	}
	return out
}

// shownBy returns a command as people see it.
func shownBy(tm *Template, v Values) (argv []string, shell bool) {
	var tk task.Task
	tm.Fill(&tk, v)
	return tk.Argv, tk.Shell
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		v    Values
		want []string
	}{
		{"record", Config{Words: []string{"ls", "-l", "{}"}}, Values{Records: recs("a b")}, []string{"ls", "-l", "a b"}},
		{"columns alone", Config{Words: []string{"x", "{}", "{/}"}}, Values{Records: recs("d/a,e/b")}, []string{"x", "d/a", "e/b", "a", "b"}},
		{"joined columns", Config{Words: []string{"x", "-{}", "{#}{/}"}}, Values{Records: recs("d/a,e/b"), Seq: 1}, []string{"x", "-d/a e/b", "1a b"}},
		{"in text", Config{Words: []string{"x", "a{}b{.}c"}}, Values{Records: recs("1.t")}, []string{"x", "a1.tb1c"}},
		{"forms", Config{Words: []string{"x", "{}", "{.}", "{/}", "{//}", "{/.}"}}, Values{Records: recs("d/a.b")},
			[]string{"x", "d/a.b", "d/a", "a.b", "d", "a"}},
		{"columns", Config{Words: []string{"x", "{2}", "{1.}", "{1/}", "{1//}", "{1/.}", "{-1}", "{-2/}", "{9}", "{-9}"}}, Values{Records: recs("d/a.b,c")},
			[]string{"x", "c", "d/a", "a.b", "d", "a", "c", "a.b", "", ""}},
		{"numbers", Config{Words: []string{"x", "{#}", "{%}", "w{%}-{#}"}}, Values{Records: recs("a"), Seq: 12, Worker: 3}, []string{"x", "12", "3", "w3-12"}},
		{"no worker yet", Config{Words: []string{"x", "{%}", "a{%}"}}, Values{Records: recs("a")}, []string{"x", "{%}", "a{%}"}},
		{"names", Config{Words: []string{"x", "{id}", "{id.}", "{p//}", "{2}", "{a,b}"}, Names: []string{"id", "p", "2"}}, Values{Records: recs("a.b,c/d,e")},
			[]string{"x", "a.b", "a", "c", "e", "{a,b}"}},
		{"short record", Config{Words: []string{"x", "{p}"}, Names: []string{"id", "p"}}, Values{Records: recs("a")}, []string{"x", ""}},
		{"fields", Config{Words: []string{"x", "{f}", "{f/}", "{g}", "{a,b}", "{a..b}", "{u.v}"}, Fields: true},
			Values{Records: recs("r"), Fields: map[string]string{"f": "d/e", "u.v": "w", "a": "no"}}, []string{"x", "d/e", "e", "{g}", "{a,b}", "{a..b}", "w"}},
		{"-I", Config{Words: []string{"x", "{}", "<>", "{.}", "a<>"}, Replace: "<>"}, Values{Records: recs("r.c")}, []string{"x", "{}", "r.c", "r", "ar.c"}},
		{"unknown", Config{Words: []string{"x", "{foo}", "{1..3}", "{01}", "{0}", "{-0}", "{", "}", "{{}}", "{ }", "{99999999999}"}}, Values{Records: recs("r")},
			[]string{"x", "{foo}", "{1..3}", "{01}", "{0}", "{-0}", "{", "}", "{r}", "{ }", "{99999999999}"}},
		{"never twice", Config{Words: []string{"x", "{}", "{1}"}}, Values{Records: recs("{#},{}")}, []string{"x", "{#}", "{}", "{#}"}},
		{"append", Config{Words: []string{"x", "-v"}, Insert: AtEnd}, Values{Records: recs("a b,c")}, []string{"x", "-v", "a b", "c"}},
		{"append to one word", Config{Words: []string{"gzip"}, Insert: AtEnd}, Values{Records: recs("a b")}, []string{"gzip", "a b"}},
		{"append beside {#}", Config{Words: []string{"x", "{#}"}, Insert: AtEnd}, Values{Records: recs("a"), Seq: 1}, []string{"x", "1"}},
		{"append beside unknown", Config{Words: []string{"x", "{foo}"}, Insert: AtEnd}, Values{Records: recs("a")}, []string{"x", "{foo}", "a"}},
		{"no append", Config{Words: []string{"x"}}, Values{Records: recs("a")}, []string{"x"}},
		{"empty", Config{Words: []string{"x", "{}", "a{}b", "{#}", "{1}{2}"}, Insert: Nowhere}, Values{Records: recs("r"), Seq: 4}, []string{"x", "ab", "4"}},
		{"empty append", Config{Words: []string{"x"}, Insert: Nowhere}, Values{Records: recs("r")}, []string{"x"}},
		{"batch", Config{Words: []string{"x", "{}", "end"}, Batch: true}, Values{Records: recs("a\nb\nc")}, []string{"x", "a", "b", "c", "end"}},
		{"batch of columns alone", Config{Words: []string{"x", "{}", "-{}"}, Batch: true}, Values{Records: recs("a,b\nc,d")}, []string{"x", "a", "b", "c", "d", "-a b", "-c d"}},
		{"batch in text", Config{Words: []string{"x", "<{}>", "{#}"}, Batch: true}, Values{Records: recs("a\nb"), Seq: 5}, []string{"x", "<a>", "<b>", "5"}},
		{"batch append", Config{Words: []string{"x"}, Batch: true, Insert: AtEnd}, Values{Records: recs("a,b\nc,d")}, []string{"x", "a", "b", "c", "d"}},
		{"batch columns", Config{Words: []string{"x", "{2}", "-{1}"}, Batch: true}, Values{Records: recs("a,b\nc,d")}, []string{"x", "b", "d", "-a", "-c"}},
		{"batch nth", Config{Words: []string{"x", "{2}", "-{1.}", "{-1}", "{7}", "{}"}, Batch: true}, Values{Records: recs("a.c\nb")}, []string{"x", "b", "-a", "b", "", "a.c", "b"}},
		{"batch names", Config{Words: []string{"x", "{n}"}, Batch: true, Names: []string{"n"}}, Values{Records: recs("a\nb")}, []string{"x", "a", "b"}},
		{"no record", Config{Words: []string{"x", "{}", "{1}"}}, Values{}, []string{"x", "", ""}},
		{"program", Config{Words: []string{"{}"}}, Values{Records: recs("ls")}, []string{"ls"}},
		{"one string", Config{Words: []string{"gzip  -9 --x={} {}\t{/}.gz"}}, Values{Records: recs("d/a b;c")}, []string{"gzip", "-9", "--x=d/a b;c", "d/a b;c", "a b;c.gz"}},
		{"one string append", Config{Words: []string{" gzip -9 "}, Insert: AtEnd}, Values{Records: recs("a b")}, []string{"gzip", "-9", "a b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tm, err := New(c.cfg)
			require.NoError(t, err)
			got, shell := shownBy(tm, c.v)
			require.Equal(t, c.want, got)
			require.False(t, shell)
		})
	}
}

func TestNeedsShell(t *testing.T) {
	for _, s := range []string{"a|b", "a & b", "a;b", "a>b", "a (b)", "a $b", "a `b`", `a \b`, `a "b"`, "a 'b'", "a *", "a ?", "a [b]", "a #b", "a ~",
		"a\nb", "a {b}", "a {b,c", "X=1 a", "cd a", "exit 1", "export A", ". a", ": a", "if a", "! a", "[ a ]", "[[ a", "time a", "set a", "read a",
		"wait", "type a", "a\rb", "a ^b"} {
		tm, err := New(Config{Words: []string{s}})
		require.NoError(t, err, s)
		argv, shell := shownBy(tm, Values{})
		require.True(t, shell, s)
		require.Equal(t, []string{"/bin/sh", "-c", s}, argv)
		argv, shell = shownBy(must(t, Config{}), Values{Records: [][]string{{s}}})
		require.True(t, shell, s)
		require.Equal(t, []string{"/bin/sh", "-c", s}, argv)
	}
	for _, s := range []string{"a", "a b", "echo b", "printf %s b", "test a", "kill 1", "true x", "false", "pwd", "a b=c", "./a %b +c,d.e/f:g@h_i-j", "é ü", "help a"} {
		argv, shell := shownBy(must(t, Config{Words: []string{s}}), Values{})
		require.False(t, shell, s)
		require.Equal(t, strings.Fields(s), argv)
		argv, shell = shownBy(must(t, Config{}), Values{Records: [][]string{{s}}})
		require.False(t, shell, s)
		require.Equal(t, strings.Fields(s), argv)
	}
}

func must(t testing.TB, cfg Config) *Template {
	t.Helper()
	tm, err := New(cfg)
	require.NoError(t, err)
	return tm
}

func TestNoCommand(t *testing.T) {
	for _, c := range []struct {
		cfg   Config
		v     Values
		want  []string
		shell bool
	}{
		{Config{}, Values{Records: recs("ls  -l\t{}")}, []string{"/bin/sh", "-c", "ls  -l\t{}"}, true},
		{Config{}, Values{Records: recs(" ls -l ")}, []string{"ls", "-l"}, false},
		{Config{}, Values{Records: recs("echo a,b")}, []string{"echo", "a", "b"}, false},
		{Config{}, Values{Records: recs("")}, []string{"/bin/sh", "-c", ""}, true},
		{Config{}, Values{}, []string{"/bin/sh", "-c", ""}, true},
		{Config{}, Values{Records: recs("-x|y")}, []string{"/bin/sh", "-c", " -x|y"}, true},
		{Config{Batch: true}, Values{Records: recs("ls\npwd")}, []string{"/bin/sh", "-c", "ls\npwd"}, true},
		{Config{Shell: "/bin/bash"}, Values{Records: recs("ls a")}, []string{"/bin/bash", "-c", "ls a"}, false},
		{Config{Shell: "bash -e"}, Values{Records: recs("ls a")}, []string{"bash", "-e", "-c", "ls a"}, false},
		{Config{Shell: "bash -ec"}, Values{Records: recs("ls a")}, []string{"bash", "-ec", "ls a"}, false},
		{Config{Shell: "perl -e"}, Values{Records: recs("print 1")}, []string{"perl", "-e", "print 1"}, false},
	} {
		argv, shell := shownBy(must(t, c.cfg), c.v)
		require.Equal(t, c.want, argv)
		require.Equal(t, c.shell, shell)
	}
}

func TestFacts(t *testing.T) {
	for _, c := range []struct {
		cfg     Config
		command string
		ok      bool
	}{
		{Config{Words: []string{"gzip", "{}"}}, "gzip", true},
		{Config{Words: []string{"gzip {}"}}, "gzip", true},
		{Config{Words: []string{"{}", "{%}"}}, "", false},
		{Config{Words: []string{"x", "{%}"}}, "x", true},
		{Config{Words: []string{"x; y {%}"}}, "/bin/sh", true},
		{Config{Words: []string{"x; y {}"}}, "/bin/sh", true},
		{Config{Words: []string{"x={}; y"}}, "/bin/sh", true},
		{Config{Words: []string{"x y"}, Shell: "bash"}, "bash", true},
		{Config{Words: []string{"x y {%}"}, Shell: "fish", Insert: AtEnd}, "fish", true},
		{Config{Words: []string{"sh", "-c", "x {} {%}"}}, "sh", true},
		{Config{Words: []string{"sh", "-c", `x "$@"`, "sh"}, Insert: AtEnd}, "sh", true},
		{Config{}, "", false},
		{Config{Shell: "bash"}, "bash", true},
	} {
		tm := must(t, c.cfg)
		command, ok := tm.Command()
		require.Equal(t, c.ok, ok, c.cfg)
		if ok {
			require.Equal(t, c.command, command, c.cfg)
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		cfg  Config
		v    Values
		want string
	}{
		{"", Config{}, Values{Records: recs("a")}, ""},
		{"k", Config{}, Values{Records: recs("a")}, "k"},
		{"{}", Config{}, Values{Records: recs("a b")}, "a b"},
		{"{1}-{#}-{%}", Config{}, Values{Records: recs("a,b"), Seq: 3}, "a-3-{%}"},
		{"{//}$(x)", Config{}, Values{Records: recs("d/e")}, "d$(x)"},
		{"{n}${x}", Config{Names: []string{"n"}}, Values{Records: recs("a")}, "a${x}"},
		{"{f} {g}", Config{Fields: true}, Values{Records: recs("a\nb"), Fields: map[string]string{"f": "v"}}, "v {g}"},
		{"{}", Config{}, Values{Records: recs("a,b\nc,d")}, "a b c d"},
		{"{1}", Config{}, Values{Records: recs("a,b\nc,d")}, "a c"},
		{"{2}", Config{}, Values{Records: recs("a\nb")}, "b"},
		{"<{}>", Config{}, Values{}, "<>"},
		{"@", Config{Replace: "@"}, Values{Records: recs("a")}, "a"},
		{"{}", Config{Insert: Nowhere}, Values{Records: recs("a")}, "a"},
	} {
		require.Equal(t, c.want, compiled(t, c.text, c.cfg).Expand(c.v), c.text)
	}
}

func TestPath(t *testing.T) {
	for _, c := range []struct{ text, value, want, dir string }{
		{"d/e", "a", "d/e", "d/e"},
		{"d/x-{}/{#}.d", "a b", "d/x-a b/3.d", "d/"},
		{"{}", "../a/", `..\_a\_`, ""},
		{"{}", "..", `\..`, ""},
		{"{//}/{/}", "/b", `\_/b`, ""},
		{"{//}", "b", `\.`, ""},
		{"d/.{}.", "", `d/.\.`, "d/"},
		{"d/{}", "a\\_\t\x00", `d/a\\_\t\0`, "d/"},
	} {
		p, err := NewPath(c.text, Config{})
		require.NoError(t, err)
		require.Equal(t, c.want, p.Expand(Values{Records: [][]string{{c.value}}, Seq: 3}), c.text)
		dir, constant := p.Dir()
		require.Equal(t, c.dir, dir, c.text)
		require.Equal(t, c.text == "d/e", constant, c.text)
	}
}

// FuzzPath checks that no value leaves the directory, and that no two share one.
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

// FuzzWords checks that a command of words gets every value unchanged.
func FuzzWords(f *testing.F) {
	f.Add("a", "b", uint64(1))
	f.Add("{}", "{1}\n$(x)", uint64(7))
	tm := must(f, Config{Words: []string{"x", "{}", "<{2}|{1}>", "{#}", "{-1}", "{}{9}"}})
	f.Fuzz(func(t *testing.T, a, b string, n uint64) {
		argv, shell := shownBy(tm, Values{Records: [][]string{{a, b}}, Seq: n})
		require.False(t, shell)
		require.Len(t, argv, 7)
		require.Equal(t, []string{"x", a, b, "<" + b + "|" + a + ">"}, argv[:4])
		require.Equal(t, []string{b, a + " " + b}, argv[5:])
	})
}
