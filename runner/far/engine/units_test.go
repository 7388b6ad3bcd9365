package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// Units in messages are texts, and needs are numbers. Anything else is garbage.
func TestUnitsOfOthers(t *testing.T) {
	crewtest.Examples(t, "testdata/units.jsonl", func(t *testing.T, row struct {
		Units []task.Units
		Needs []task.Need
		OK    bool
	}) {
		_, err := decode[Attempt](encode(kindAttempt, &Attempt{Units: row.Units, Needs: row.Needs}), kindAttempt)
		require.True(t, row.OK && err == nil || err == errGarbage, "%v", err)
	})
}

// A worker runs its own command, and commands that are signed by a trusted key if that is allowed, and
// nothing else.
func TestRefusedAttempts(t *testing.T) {
	crewtest.Examples(t, "testdata/refused.jsonl", func(t *testing.T, row struct {
		Own, Commands bool
		Attempt       Attempt
		Why           string
	}) {
		work := testCall()
		work.Make = func(*task.Task, []string, []string) error { return nil }
		if work.Engine.Commands = row.Commands; !row.Own {
			work.Options.Command.Words = nil
		}
		w := newWorker(work)
		w.trust = map[[32]byte]bool{}
		a := &row.Attempt
		if a.Template == [32]byte{} {
			a.Template = w.digest
		}
		why, tk := "", w.taskOf(a)
		if err := w.setCommand(a, tk, taskSubject("q", "=.w", "=", "r"), encode(kindAttempt, a)); err != nil {
			why = err.Error()
		}
		require.Equal(t, row.Why, why)
		require.True(t, tk.Marks == nil || row.Commands)
	})
}
