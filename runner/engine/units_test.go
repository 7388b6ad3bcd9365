package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// A worker's own command has the units of a run's limits, in braces and in the environment, and
// nothing of them for a task that holds none. To a run without limits their names are text.
func TestWorkerTellsOfUnits(t *testing.T) {
	words := []string{"sh", "-c", `printf %s "$CREW_GPU/$CREW_DB/$1/{gpu}"`, "sh", "{}"}
	url := startHub(t)
	b := newBench(t, url, words...)
	crew(t, append([]string{"worker", "--engine", url, "-j1"}, words...)...)
	p := b.worker(isReady)
	gpu := []task.Units{{Name: "gpu", Held: []string{"0", "GPU-1f"}}}
	for _, c := range []struct {
		caps  []string
		units []task.Units
		want  string
	}{
		{[]string{"db", "gpu"}, gpu, "0,GPU-1f//a/0,GPU-1f"},
		{[]string{"db", "gpu"}, nil, "//a/"},
		{nil, nil, "//a/{gpu}"},
	} {
		a := b.attempt("a")
		a.Caps, a.Units = c.caps, c.units
		b.give(p.ID, a)
		require.Equal(t, c.want, string(b.ends(a).Stdout))
	}
}

func TestUnitsOfOthersAreText(t *testing.T) {
	for _, u := range []task.Units{
		{Name: "gpu", Held: []string{"$(x)"}}, {Name: "gpu", Held: []string{"0", ""}}, {Name: "gpu", Held: []string{"-x"}},
		{Name: "worker", Held: []string{"0"}}, {Name: "a=b", Held: []string{"0"}}, {Held: []string{"0"}},
	} {
		_, err := DecodeAttempt((&Attempt{Units: []task.Units{u}}).Encode())
		require.Equal(t, errGarbage, err)
	}
}

// Marks of others are names in braces in the command, in order, or the message is garbage.
func TestMarksOfOthers(t *testing.T) {
	at := func(word, off int) task.Mark { return task.Mark{Word: word, Off: off} }
	for _, c := range []struct {
		marks []task.Mark
		ok    bool
	}{
		{[]task.Mark{at(1, 1), at(1, 6), at(task.InExec-1, 0)}, true},
		{[]task.Mark{at(1, 6), at(1, 1)}, false}, {[]task.Mark{at(1, 1), at(1, 3)}, false},
		{[]task.Mark{at(1, 0)}, false}, {[]task.Mark{at(1, 12)}, false}, {[]task.Mark{at(1, -1)}, false}, {[]task.Mark{at(1, 99)}, false},
		{[]task.Mark{at(2, 0)}, false}, {[]task.Mark{at(task.InTag, 0)}, false}, {[]task.Mark{at(task.InExec-2, 0)}, false},
		{[]task.Mark{at(0, 0)}, false}, {[]task.Mark{at(task.InExec, 0)}, false}, {[]task.Mark{{Word: 1, Off: 1, Temp: true}}, false},
	} {
		a := &Attempt{Argv: []string{"}", "x{gpu}{gpu}{{%}"}, Exec: []string{"{$x}", "{gpu}"}, Marks: c.marks}
		_, err := DecodeAttempt(a.Encode())
		require.Equal(t, c.ok, err == nil, "%v", c.marks)
	}
	_, err := DecodeAttempt((&Attempt{Needs: []task.Need{{Name: "gpu"}}}).Encode())
	require.Equal(t, errGarbage, err)
}
