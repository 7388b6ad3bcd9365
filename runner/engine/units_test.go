package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
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
	crewtest.Examples(t, "testdata/marks.jsonl", func(t *testing.T, row struct {
		Marks []task.Mark
		OK    bool
	}) {
		a := &Attempt{Argv: []string{"}", "x{gpu}{gpu}{{%}"}, Exec: []string{"{$x}", "{gpu}"}, Marks: row.Marks}
		_, err := DecodeAttempt(a.Encode())
		require.Equal(t, row.OK, err == nil)
	})
	_, err := DecodeAttempt((&Attempt{Needs: []task.Need{{Name: "gpu"}}}).Encode())
	require.Equal(t, errGarbage, err)
}
