package control

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

func TestLines(t *testing.T) {
	crewtest.UTC(t)
	crewtest.Examples(t, "testdata/lines.jsonl", func(t *testing.T, row struct {
		Wheres []task.Where
		Reply  *Reply
		Status *Status
		Width  int // of the terminal; 0 for none
		More   int // running tasks and reasons in the status
		Line   string
	}) {
		width := cmp.Or(row.Width, math.MaxInt)
		switch {
		case row.Wheres != nil:
			require.Equal(t, row.Line, strings.Join(Explain(row.Wheres, width), "\n"))
		case row.Reply != nil:
			require.Equal(t, row.Line, row.Reply.Line())
		case row.More > 0:
			for i := range row.More {
				reason := row.Status.Snapshot.Waiting[0]
				reason.Shown = fmt.Sprint(i)
				row.Status.Tasks, row.Status.Snapshot.Waiting = append(row.Status.Tasks, row.Status.Tasks[0]), append(row.Status.Snapshot.Waiting, reason)
			}
			require.Len(t, row.Status.Lines(width), 2+1+maxTasks+1+1+maxReasons+1)
		default:
			require.Equal(t, row.Line, strings.Join(row.Status.Lines(width), "\n"))
		}
	})
}
