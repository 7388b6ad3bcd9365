package sink

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestETA checks the estimates in the middle of a run. Each group of tasks has a number and a
// duration. Tasks run on slots and start in order, limited by a pace.
func TestETA(t *testing.T) {
	crewtest.Examples(t, "testdata/eta.jsonl", func(t *testing.T, c struct {
		It    string
		Slots int
		Pace  float64
		Tasks []struct {
			N    int
			Take float64
		}
		At, Left []float64 // Left is 0 if unknown
	}) {
		for i, at := range c.At {
			seconds := func(n float64) time.Time { return dawn.Add(time.Duration(n * 1e9)) }
			l := runningTasks{}
			var s task.Stats
			waiting, id, now := int64(0), uint64(0), seconds(at)
			apply := func(e task.Event) { l.apply(&e, e.At); s.Apply(&e) }
			ends := make([]float64, c.Slots)
			for _, group := range c.Tasks {
				for range group.N {
					slot := slices.Index(ends, slices.Min(ends))
					from := max(ends[slot], float64(id)*c.Pace)
					if id++; from > at {
						waiting++
						continue
					}
					ends[slot] = from + group.Take
					apply(task.Event{Kind: task.Started, At: seconds(from), ID: id, Slot: slot + 1})
					if ends[slot] <= at {
						apply(task.Event{
							Kind: task.Finished, At: seconds(ends[slot]), ID: id, Slot: slot + 1, Attempt: 1,
							Took: time.Duration(group.Take * 1e9), Result: &task.Result{Outcome: task.OK},
						})
					}
				}
			}
			left, ok := s.ETA(waiting, l.ages(now), now)
			require.Equal(t, c.Left[i] > 0, ok, c.It)
			require.InEpsilon(t, 1+c.Left[i], 1+left.Seconds(), 0.15, c.It)
		}
	})
}

func TestNamesFit(t *testing.T) {
	crewtest.Examples(t, "testdata/names.jsonl", func(t *testing.T, c struct {
		Task    task.Task
		Columns int
		Want    string
	}) {
		require.Equal(t, c.Want, runningTask{task: &c.Task}.name(c.Columns))
	})
}

func TestTimesForPeople(t *testing.T) {
	crewtest.Examples(t, "testdata/times.jsonl", func(t *testing.T, c struct {
		Seconds            float64
		Span, Brief, Speed string
	}) {
		d := time.Duration(c.Seconds * 1e9)
		require.Equal(t, []string{c.Span, c.Brief, c.Speed}, []string{task.Span(d), task.Brief(d), task.Speed(c.Seconds)})
	})
}
