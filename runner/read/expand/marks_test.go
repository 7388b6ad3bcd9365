package expand

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"

	"crew/runner/decide/task"
)

// TestLaterValues checks that values inserted last are read like any other value, wherever a value can
// stand: the number of a worker, the name of a host, the units that an attempt holds, if any, and a
// temporary name, whatever the name of the file. The displayed command has the name of the file itself.
func TestLaterValues(t *testing.T) {
	o := newOracle(t)
	var list []trial
	out := compiled(t, "{}", Config{})
	for i, c := range contexts {
		for _, shell := range []string{"", "bash"} {
			for j, later := range []struct{ placeholder, name, is string }{
				{"{%}", "x", "3"}, {"{host}", "x", "web-1.if"}, {"{gpu}", "x", "0"}, {"{gpu}", "x", "0,GPU-1f.x,_"}, {"{gpu}", "x", ""},
				{"{out}", "d/a b'$(x)`x`\"\\*.tar.gz", ""}, {"{out}", "-x\n", ""}, {"{out}", "'", ""},
			} {
				if c.Bash && shell == "" || (i+j+len(shell)/4)%2 == 1 && !crewtest.Soaking() {
					continue
				}
				script := strings.ReplaceAll(c.Script, "{}", later.placeholder)
				tm := must(t, Config{Words: []string{script}, Shell: shell, Caps: caps, Outs: []*Text{out}})
				require.Equal(t, strings.Contains(script, "{out}"), tm.Holds(out), script)
				require.Equal(t, strings.Contains(script, "{gpu}"), len(tm.Caps()) > 0)
				tk := task.Task{ID: 7, Makes: &task.Making{Temp: temp}}
				tm.Fill(&tk, Values{Records: [][]string{{later.name}}, Seq: 7})
				require.NotContains(t, strings.Join(tk.ArgvOn(3, "", nil), "\n"), temp)
				require.Equal(t, later.name == "x" && strings.Contains(script, later.placeholder), tk.Varies(), script)
				is := later.is
				if later.placeholder == "{out}" {
					is = tk.Makes.TempName(later.name)
				}
				holds := []task.Units{{Name: "db", Held: []string{"0"}}, {Name: "gpu", Held: strings.FieldsFunc(is, func(r rune) bool { return r == ',' })}}
				list = append(list, trial{tk.ExecOn(3, "web-1.if", holds), wanted(c.Want, is), script})
			}
		}
	}
	o.checkTogether(t, list)
	text := compiled(t, "{gpu}: {1}", Config{Caps: caps})
	require.Equal(t, "{gpu}", text.OfSlot())
}
