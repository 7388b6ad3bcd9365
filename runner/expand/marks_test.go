package expand

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// TestMarks checks that a command expanded before its slot is known ends up the
// same as one expanded for that slot.
func TestMarks(t *testing.T) {
	for _, words := range [][]string{
		{"x", "{%}", "w{%}-{#}-{%}{}", "{}"},
		{"x", "{}{%}", "{%}"},
		{"echo {} >{%}; echo \"$x{%} '{%}'\" '{%}' {%}{%}"},
		{"echo $x{%} \"$x{%}\" {%}>f $(cat {%}) `cat {%}`; cat <<E\n{%} {}\nE\n"},
		{"sh", "-c", "echo \"{%}\" $1 '{}!\\'", "{%}", "{}"},
	} {
		for _, shell := range []string{"", "bash", "fish"} {
			tm, err := New(Config{Words: words, Shell: shell, Insert: AtEnd, Batch: true})
			if err != nil {
				continue
			}
			for _, records := range [][][]string{{{"a {%} b"}}, {{"a {%} b"}, {"it's"}, {""}}} {
				v := Values{Records: records, Seq: 5}
				var tk task.Task
				tm.Fill(&tk, v)
				v.Worker = 12
				want := tm.Argv(v)
				if got := tk.ExecOn(12, "", nil); len(want) == len(got) { // a number needs no quotes
					require.Equal(t, strings.ReplaceAll(strings.Join(want, "|"), "_crew1=12", "_crew1='12'"), strings.Join(got, "|"), "%q", words)
				} else {
					t.Errorf("%q: %q", words, got)
				}
				require.NotContains(t, strings.ReplaceAll(strings.Join(tk.ArgvOn(12, "", nil), " "), "a {%} b", ""), "{%}")
				require.True(t, tk.Varies(), "%q", words)
			}
		}
	}
}

func TestTagMarks(t *testing.T) {
	v := Values{Records: [][]string{{"{%}", "b"}}, Seq: 5}
	for _, s := range []string{"{%}", "{}:{%}{%}", "{1}", ""} {
		text := compiled(t, s, Config{})
		tk := task.Task{Marks: []task.Mark{}}
		text.FillTag(&tk, v)
		with := v
		with.Worker = 3
		require.Equal(t, text.Expand(with), tk.TagOn(3, "", nil), s)
		require.False(t, tk.Varies())
	}
}

// TestHost checks that the name of a host, which is put in last, is read like any
// value, wherever one can stand.
func TestHost(t *testing.T) {
	o := newOracle(t)
	var list []trial
	for _, c := range contexts {
		for _, shell := range []string{"", "bash"} {
			if c.bash && shell == "" {
				continue
			}
			script := strings.ReplaceAll(c.script, "{}", "{host}")
			tm, err := New(Config{Words: []string{script}, Shell: shell})
			require.NoError(t, err, script)
			tk := task.Task{ID: 7}
			tm.Fill(&tk, Values{Records: [][]string{{"x"}}, Seq: 7})
			list = append(list, trial{tk.ExecOn(3, "web-1.if", nil), wanted(c.want, "web-1.if"), script})
		}
	}
	o.checkTogether(t, list)

	for _, c := range []struct {
		words, want []string
		names       []string
	}{
		{[]string{"x", "a{host}{%}{host}", "{}"}, []string{"x", "aweb3web", "r"}, nil},
		{[]string{"x", "{host}"}, []string{"x", "r"}, []string{"host"}},
		{[]string{"x", "{host.}", "{host/}"}, []string{"x", "{host.}", "{host/}", "r"}, nil},
		{[]string{"sh", "-c", "for host in {}; do x ${host}; done"}, []string{"sh", "-c", `_crew1=r; for host in "${_crew1?}"; do x ${host}; done`}, nil},
	} {
		tm, err := New(Config{Words: c.words, Names: c.names, Insert: AtEnd})
		require.NoError(t, err)
		var tk task.Task
		tm.Fill(&tk, Values{Records: [][]string{{"r"}}})
		require.Equal(t, c.want, tk.ArgvOn(3, "web", nil), "%q", c.words)
	}
	_, err := New(Config{Words: []string{"echo $(({host} + 1))"}})
	require.EqualError(t, err, "{host} cannot stand where only a number can: write {%} for that of the worker")
}

// TestUnits checks the same of the units that an attempt holds, of which there may be none,
// and in scripts within scripts.
func TestUnits(t *testing.T) {
	o := newOracle(t)
	var list []trial
	caps := []task.Cap{{Name: "gpu", Units: []string{"0", "GPU-1f.x", "_"}}, {Name: "db", Units: []string{"0"}}}
	for _, c := range contexts {
		for _, shell := range []string{"", "bash"} {
			if c.bash && shell == "" {
				continue
			}
			script := strings.ReplaceAll(c.script, "{}", "{gpu}")
			tm, err := New(Config{Words: []string{script}, Shell: shell, Caps: caps})
			require.NoError(t, err, script)
			var tk task.Task
			tm.Fill(&tk, Values{Records: [][]string{{"x"}}, Seq: 7})
			for _, held := range [][]string{{"0"}, {"0", "GPU-1f.x", "_"}, nil} {
				got := tk.ExecOn(3, "", []task.Units{{Name: "db", Held: []string{"0"}}, {Name: "gpu", Held: held}})
				list = append(list, trial{got, wanted(c.want, strings.Join(held, ",")), script})
			}
		}
	}
	o.checkTogether(t, list)

	for _, c := range []struct{ words, want []string }{
		{[]string{"x", "a{gpu}{%}{db}", "{}"}, []string{"x", "a0,130", "r"}},
		{[]string{"x", "{GPU}", "{gpu.}", "{gp}"}, []string{"x", "{GPU}", "{gpu.}", "{gp}", "r"}},
		{[]string{"sh", "-c", "x ${gpu} {gpu}"}, []string{"sh", "-c", `_crew1='0,1'; x ${gpu} "${_crew1?}"`}},
		{[]string{"ssh", "h", "x {gpu}"}, []string{"ssh", "h", `exec sh -c '_crew1='\''0,1'\''; x "${_crew1?}"'`}},
		{[]string{"python3", "-c", "print('{gpu}')"}, []string{"python3", "-c", "print('0,1')"}},
	} {
		tm, err := New(Config{Words: c.words, Caps: caps, Insert: AtEnd})
		require.NoError(t, err)
		var tk task.Task
		tm.Fill(&tk, Values{Records: [][]string{{"r"}}})
		require.Equal(t, c.want, tk.ArgvOn(3, "", []task.Units{{Name: "db", Held: []string{"0"}}, {Name: "gpu", Held: []string{"0", "1"}}}), "%q", c.words)
		require.Equal(t, strings.Contains(strings.Join(c.words, ""), "{gpu}"), len(tm.Caps()) > 0)
	}
	_, err := New(Config{Words: []string{"echo $(({gpu} + 1))"}, Caps: caps})
	require.EqualError(t, err, "{gpu} cannot stand where only a number can: there may be none, or several")
	_, err = New(Config{Words: []string{"x", "{gpv}"}, Caps: caps, Names: []string{"a"}})
	require.EqualError(t, err, `no column is called "gpv": the columns are a; { gpv } is text`)

	text := compiled(t, "{gpu}: {1}", Config{Caps: caps})
	require.Equal(t, "{gpu}", text.OfSlot())
	var tk task.Task
	text.FillTag(&tk, Values{Records: [][]string{{"r {gpu}"}}})
	require.Equal(t, "0: r {gpu}", tk.TagOn(1, "", []task.Units{{Name: "gpu", Held: []string{"0"}}}))
}

// TestMade checks that a temporary name is read as it is wherever {out} can stand, whatever
// the name of the file, and that people see the file itself.
func TestMade(t *testing.T) {
	const temp = ".crew-12345678."
	o := newOracle(t)
	var list []trial
	for _, c := range contexts {
		for _, shell := range []string{"", "bash"} {
			if c.bash && shell == "" {
				continue
			}
			for _, name := range []string{"d/a b'$(x)`x`\"\\*.tar.gz", "-x\n", "'"} {
				script := strings.ReplaceAll(c.script, "{}", "{out}")
				out := compiled(t, "{}", Config{})
				tm, err := New(Config{Words: []string{script}, Shell: shell, Outs: []*Text{out}})
				require.NoError(t, err, script)
				require.Equal(t, strings.Contains(script, "{out}"), tm.Holds(out), script)
				tk := task.Task{ID: 7, Makes: &task.Making{Temp: temp}}
				tm.Fill(&tk, Values{Records: [][]string{{name}}, Seq: 7})
				require.NotContains(t, strings.Join(tk.ArgvOn(3, "", nil), "\n"), temp)
				list = append(list, trial{tk.ExecOn(3, "", nil), wanted(c.want, tk.Makes.TempName(name)), script})
			}
		}
	}
	o.checkTogether(t, list)
}

func TestMadeInWords(t *testing.T) {
	const temp = ".crew-12345678."
	for _, c := range []struct {
		words, makes []string
		records      [][]string
		shown, run   string
	}{
		{[]string{"x", "-o{out}", "{}"}, []string{"d/{.}.png"}, [][]string{{"a.svg"}}, "x -od/a.png a.svg", "x -od/T.a.png a.svg"},
		{[]string{"x", "{out2}", "{out}", "{out3}"}, []string{"{1}", "{2}/"}, [][]string{{"a", "b/c"}}, "x b/c a {out3}", "x b/T.c T.a {out3}"},
		{[]string{"x", "{}", "{out}"}, []string{"{.}.o"}, [][]string{{"a.c"}, {"b.c"}}, "x a.c b.c a.o b.o", "x a.c b.c T.a.o T.b.o"},
		{[]string{"x", "{}:{out}"}, []string{"{1.}.o"}, [][]string{{"a.c"}, {"b.c"}}, "x a.c:a.o b.c:b.o", "x a.c:T.a.o b.c:T.b.o"},
		{[]string{"tar cf {out} {}"}, []string{"p-{#}.tar"}, [][]string{{"a"}, {"b"}}, "tar cf p-7.tar a b", "tar cf T.p-7.tar a b"},
		{[]string{"x", "{out.}", "${out}"}, []string{"a"}, [][]string{{"r"}}, "x {out.} $a", "x {out.} $T.a"},
	} {
		cfg := Config{Words: c.words, Insert: InPlace, Batch: len(c.records) > 1}
		for _, m := range c.makes {
			cfg.Outs = append(cfg.Outs, compiled(t, m, Config{}))
		}
		tm, err := New(cfg)
		require.NoError(t, err)
		tk := task.Task{Makes: &task.Making{Temp: temp}}
		tm.Fill(&tk, Values{Records: c.records, Seq: 7})
		require.Equal(t, c.shown, strings.Join(tk.ArgvOn(1, "", nil), " "))
		require.Equal(t, strings.ReplaceAll(c.run, "T.", temp), strings.Join(tk.ExecOn(1, "", nil), " "))
		require.False(t, tk.Varies())
	}
	_, err := New(Config{Words: []string{"sh", "-c", "{out}"}, Outs: []*Text{compiled(t, "{}", Config{})}})
	require.ErrorContains(t, err, "a record as the script of a shell")
	_, err = New(Config{Words: []string{"x {out}"}, Shell: "fish", Outs: []*Text{compiled(t, "{}", Config{})}})
	require.ErrorContains(t, err, "{out} cannot stand in a script for fish")
}
