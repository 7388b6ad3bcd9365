package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// call sends a request in another goroutine. It returns a channel of replies, which is closed after the last
// one, and a channel of the error.
func (r *run) call(q Request) (<-chan Reply, <-chan error) {
	replies, over := make(chan Reply, 10_000), make(chan error, 1)
	go func() {
		over <- r.talk(q, func(reply *Reply) error {
			replies <- *reply
			return nil
		})
		close(replies)
	}()
	return replies, over
}

// TestSlowWatcher checks that events that do not fit are counted, in their place, and do not stop the run.
func TestSlowWatcher(t *testing.T) {
	r := newRun(t, func(c *Config) { c.partingGap = time.Minute })
	watching, goOn := make(chan struct{}), make(chan struct{})
	var got, lost int64
	over := make(chan error)
	go func() {
		over <- r.talk(Request{Op: "watch"}, func(reply *Reply) error {
			switch {
			case reply.Event == nil:
			case reply.Name == "watching":
				close(watching)
				<-goOn
			case reply.Name == "lost":
				lost += reply.Count
			default:
				got++
				if want := fmt.Sprint(got + lost); !strings.HasPrefix(reply.Text, want+" ") {
					return fmt.Errorf("%.10q instead of event %s", reply.Text, want)
				}
			}
			return nil
		})
	}()
	<-watching
	const events = 20_000
	long := strings.Repeat("x", 1000)
	for i := range events {
		r.event(task.Event{Kind: task.Notice, Text: fmt.Sprint(i+1, " ", long)})
	}
	close(goOn)
	crewtest.Until(t, func() bool {
		r.s.sink.mu.Lock()
		defer r.s.sink.mu.Unlock()
		for l := range r.s.sink.listeners {
			return len(l.events) == 0
		}
		return false
	}, "the events to be handed over")
	r.s.Close()
	require.NoError(t, <-over)
	require.EqualValues(t, events, got+lost)
	require.Positive(t, lost)
	require.GreaterOrEqual(t, got, int64(maxEvents))
}

// TestWatchToTheEnd checks that a watcher gets events that come just before the totals.
func TestWatchToTheEnd(t *testing.T) {
	var r *run
	looks := 0
	r = newRun(t, func(c *Config) {
		c.Do = func(cmd task.Command) task.Reply {
			if looks++; looks == 2 { // the watcher has just taken the events
				r.event(task.Event{Kind: task.Notice, Text: "the last"})
				require.NoError(t, r.s.sink.Close(task.Stats{Start: time.Now()}))
			}
			return r.do(cmd)
		}
	})
	replies, over := r.call(Request{Op: "watch", Follow: true})
	require.NoError(t, <-over)
	var texts []string
	for reply := range replies {
		if reply.Event != nil {
			texts = append(texts, reply.Text)
		}
	}
	require.Contains(t, texts, "the last")
}

// TestForgottenBesideNew checks that new tasks run to their end although nothing is known any more of one that
// was there.
func TestForgottenBesideNew(t *testing.T) {
	r := newRun(t, func(c *Config) {
		c.Feed = func(_ *Addition, numbered func(_, _ []uint64)) error {
			numbered([]uint64{1, 2}, []uint64{1})
			return nil
		}
	})
	r.wheres[1] = task.Where{State: "ended"}
	replies, over := r.call(Request{Op: "add", Wait: true, Add: &Addition{Command: []task.Bytes{"x"}}})
	<-replies
	r.end(r.start(2, 1), task.OK, true)
	require.ErrorContains(t, <-over, "task 1 has ended, and no more is known of it")
	require.Len(t, (<-replies).Ended, 1)
}

// TestEndsWhileFinding checks that no end is forgotten, although more tasks than are remembered fail between the
// moment when the run names them and the answer.
func TestEndsWhileFinding(t *testing.T) {
	var r *run
	r = newRun(t, func(c *Config) {
		c.Do = func(cmd task.Command) task.Reply {
			reply := r.do(cmd)
			for _, found := range reply.Tasks {
				r.end(r.start(found.ID, 1), task.Exit, true)
			}
			return reply
		}
	})
	all := Request{Op: "wait"}
	for id := range uint64(2 * maxPast) {
		all.Tasks = append(all.Tasks, id+1)
	}
	replies, err := r.ask(all)
	require.NoError(t, err)
	require.Len(t, replies, 2*maxPast+1)
}
