package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// Marks in messages are names in braces in the command, in order. Units are texts, and needs are numbers. Anything
// else is garbage.
func TestMarksOfOthers(t *testing.T) {
	crewtest.Examples(t, "testdata/marks.jsonl", func(t *testing.T, row struct {
		Marks []task.Mark
		Units []task.Units
		Needs []task.Need
		OK    bool
	}) {
		a := &Attempt{Argv: []string{"}", "x{gpu}{gpu}{{%}"}, Exec: []string{"{$x}", "{gpu}"}, Marks: row.Marks, Units: row.Units, Needs: row.Needs}
		_, err := decode[Attempt](encode(kindAttempt, a), kindAttempt)
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
		why := ""
		if err := w.setCommand(a, w.taskOf(a), taskSubject("q", "=.w", "=", "r"), encode(kindAttempt, a)); err != nil {
			why = err.Error()
		}
		require.Equal(t, row.Why, why)
	})
}
