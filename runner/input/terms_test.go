package input

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

var caps = []task.Cap{{Name: "db", Units: []string{"0", "1"}}, {Name: "gpu", Units: []string{"a"}}}

// What templates say of a record, or its members, is in its terms. Records of which they say the same share
// these.
func TestWhatTasksTake(t *testing.T) {
	gpu := []task.Need{{Name: "gpu", N: 1}}
	cfg := TasksConfig{Template: template(t, expand.Config{Words: []string{"x"}}), Texts: Texts{Terms: Terms{
		Priority: textOf(t, "{1}"), Weight: textOf(t, "{2}"), Needs: textOf(t, "{3}"), Caps: caps,
	}}}
	for in, want := range map[string]*task.Terms{
		"0;1;": nil, "-1000;1;": {Priority: -1000, Weight: 1}, "0;2;gpu": {Weight: 2, Needs: gpu}, "0;99999999999999999999;": {Weight: math.MaxInt},
		"5;01;gpu,db:2": {Priority: 5, Weight: 1, Needs: []task.Need{{Name: "db", N: 2}, {Name: "gpu", N: 1}}},
	} {
		list := tasks(t, semicolons(in), cfg)
		require.NoError(t, list[0].Err, in)
		require.Equal(t, want, list[0].Asked, in)
	}
	for in, want := range map[string]string{
		"1001;1;": `priority "1001" is no whole number from -1000 to 1000`, ";1;": `priority "" is no whole number from -1000 to 1000`,
		"1.5;1;": `priority "1.5" is no whole number from -1000 to 1000`, "0;0;": `weight "0" is no whole number from 1 up`,
		"0;-99999999999999999999;": `weight "-99999999999999999999" is no whole number from 1 up`, "0;x;": `weight "x" is no whole number from 1 up`,
		"0;1;net": `needs "net": no --cap is called net: add --cap net=N`, "0;1;db:3": `needs "db:3": db:3 is more than the 2 of --cap db`,
		"0;1;db,db": `needs "db,db": has db twice: write db:N for N units`,
	} {
		list := tasks(t, semicolons(in), cfg)
		require.EqualError(t, list[0].Err, want, in)
		require.Nil(t, list[0].Argv)
	}
	cfg.Even = "because"
	list := tasks(t, semicolons("1;1;gpu\n1;1;gpu\n2;1;gpu\n1;2;\n"), cfg)
	require.Same(t, list[0].Asked, list[1].Asked)
	require.Same(t, &list[0].Asked.Needs[0], &list[2].Asked.Needs[0])
	require.EqualError(t, list[3].Err, `weight "2" is more than 1: because`)
}

// semicolons are lines with semicolons between their columns.
func semicolons(text string) Config {
	c := lines(text)
	c.Format.Colsep, _ = ParseColsep(";")
	return c
}

func TestWhatObjectsTake(t *testing.T) {
	cfg := TasksConfig{Template: template(t, expand.Config{Fields: true}), Objects: true, Texts: Texts{
		Terms: Terms{Weight: textOf(t, "3"), Needs: textOf(t, "gpu"), Caps: caps},
	}}
	list := tasks(t, objects(`{"id":"a","command":"x","priority":7}`, `{"command":"x","weight":1,"needs":[]}`, `{"command":"x","needs":["db:2","gpu"]}`,
		`{"id":"b","command":"x","weight":"1.0"}`, `{"command":"x","needs":"db:9"}`), cfg)
	gpu := []task.Need{{Name: "gpu", N: 1}}
	require.Equal(t, &task.Terms{Name: "a", Priority: 7, Weight: 3, Needs: gpu}, list[0].Asked)
	require.Nil(t, list[1].Asked)
	require.Equal(t, &task.Terms{Weight: 3, Needs: []task.Need{{Name: "db", N: 2}, {Name: "gpu", N: 1}}}, list[2].Asked)
	require.EqualError(t, list[3].Err, `weight "1.0" is no whole number from 1 up`)
	require.Equal(t, "b", list[3].Terms().Name)
	require.EqualError(t, list[4].Err, `needs "db:9": db:9 is more than the 2 of --cap db`)
}

// A record whose member has the name of a limit is refused where {gpu} would be either.
func TestAMemberCalledLikeALimit(t *testing.T) {
	for _, words := range [][]string{{"x", "{n}"}, {"x", "{n}{gpu}"}} {
		cfg := TasksConfig{Template: template(t, expand.Config{Words: words, Fields: true, Caps: caps})}
		list := tasks(t, objects(`{"n":1}`, `{"n":2,"gpu":3}`), cfg)
		require.NoError(t, list[0].Err)
		if len(cfg.Template.Caps()) == 0 {
			require.NoError(t, list[1].Err)
			continue
		}
		require.EqualError(t, list[1].Err, `line 2 of standard input: the member "gpu" has the name of --cap gpu, `+
			"for whose units {gpu} stands: call one of them something else")
	}
}

// A template that is the same for all tasks is checked before the first one.
func TestConstantTerms(t *testing.T) {
	for text, want := range map[string]string{"2": "", "{1}": "", "x": `weight "x" is no whole number from 1 up`} {
		c := Terms{Weight: textOf(t, text), Caps: caps}
		if err := c.Validate(); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
	c := Terms{Needs: textOf(t, "net"), Caps: caps}
	require.EqualError(t, c.Validate(), `needs "net": no --cap is called net: add --cap net=N`)
}

// Tasks share what they need even if each number of units of the largest limit is needed.
func TestManyNeedsAreShared(t *testing.T) {
	large := task.Cap{Name: "mem", Units: make([]string, task.MostUnits)}
	a := asker{Terms: Terms{Caps: []task.Cap{large}}}
	var first [task.MostUnits]*task.Need
	for i := range 2 * len(first) {
		n := i % len(first)
		needs, err := a.parseNeeds(fmt.Sprint("mem:", n+1))
		require.NoError(t, err)
		if i < len(first) {
			first[n] = &needs[0]
		}
		require.Same(t, first[n], &needs[0])
	}
}

// FuzzTerms: whatever is written, a task has terms that can be met, or says what is wrong.
func FuzzTerms(f *testing.F) {
	for _, s := range [][3]string{{"0", "1", ""}, {"-1000", "2", "gpu,db:2"}, {"1001", "0", "net"}, {"+5", "1e3", "db:3"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, priority, weight, needs string) {
		a := asker{Terms: Terms{Caps: caps}}
		var tk task.Task
		if err := a.ask(&tk, written{some(priority), some(weight), some(needs)}); err != nil {
			require.Nil(t, tk.Asked)
			return
		}
		terms := tk.Terms()
		require.NoError(t, task.Lacks(caps, terms.Needs, false))
		require.LessOrEqual(t, max(terms.Priority, -terms.Priority), task.MaxPriority)
		var again task.Task
		w := written{some(fmt.Sprint(terms.Priority)), some(fmt.Sprint(max(terms.Weight, 1)))}
		w[2] = some(needs)
		require.NoError(t, a.ask(&again, w))
		require.Equal(t, terms, again.Terms())
	})
}
