package control

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

func TestLines(t *testing.T) {
	crewtest.UTC(t)
	crewtest.Examples(t, "testdata/lines.jsonl", func(t *testing.T, row struct {
		Hello  *Hello
		Where  *task.Where
		Reply  *Reply
		Status *Status
		Narrow bool
		More   int // running tasks and reasons in the status
		Line   string
	}) {
		switch {
		case row.Hello != nil:
			require.Equal(t, row.Line, row.Hello.Line())
		case row.Where != nil:
			require.Equal(t, row.Line, row.Where.Line())
		case row.Reply != nil:
			require.Equal(t, row.Line, row.Reply.Line())
		case row.More > 0:
			for i := range row.More {
				reason := row.Status.Snapshot.Waiting[0]
				reason.Shown = fmt.Sprint(i)
				row.Status.Tasks, row.Status.Snapshot.Waiting = append(row.Status.Tasks, row.Status.Tasks[0]), append(row.Status.Snapshot.Waiting, reason)
			}
			require.Len(t, row.Status.Lines(false), 2+maxTasks+1+maxReasons+1)
		default:
			require.Equal(t, row.Line, strings.Join(row.Status.Lines(row.Narrow), "\n"))
		}
	})
}
