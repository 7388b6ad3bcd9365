package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/front/wiring"
)

func TestUnitsOfOthersAreText(t *testing.T) {
	for _, u := range []task.Units{
		{Name: "gpu", Held: []string{"$(x)"}}, {Name: "gpu", Held: []string{"0", ""}}, {Name: "gpu", Held: []string{"-x"}},
		{Name: "worker", Held: []string{"0"}}, {Name: "a=b", Held: []string{"0"}}, {Held: []string{"0"}},
	} {
		_, err := DecodeAttempt((&Attempt{Units: []task.Units{u}}).Encode())
		require.Equal(t, errGarbage, err)
	}
}

// Marks in messages are names in braces in the command, in order. Other marks are garbage.
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

// A worker runs its own command, and commands that are signed by a trusted key if that is allowed, and
// nothing else.
func TestRefusedAttempts(t *testing.T) {
	crewtest.Examples(t, "testdata/refused.jsonl", func(t *testing.T, row struct {
		Own, Commands bool
		Attempt       Attempt
		Why           string
	}) {
		work := wiring.Work{Make: func(*task.Task, []string, []string) error { return nil }}
		if work.Commands = row.Commands; row.Own {
			work.Template = testCommand
		}
		w := newWorker(work)
		w.trust = map[[32]byte]bool{}
		a := &row.Attempt
		if a.Template == [32]byte{} {
			a.Template = w.digest
		}
		why := ""
		if err := w.setCommand(a, w.taskOf(a), taskSubject("q", "=.w", "=", "r"), a.Encode()); err != nil {
			why = err.Error()
		}
		require.Equal(t, row.Why, why)
	})
}
