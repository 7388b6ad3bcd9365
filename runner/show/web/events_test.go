package web

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/show/history"
	"crew/runner/steer/control"
)

// told is a run whose events the test makes, and a server whose pages say how many tasks finished.
type told struct {
	*site
	s *control.Server
	r *run
}

func tell(t *testing.T) *told {
	s := control.Serve(control.Config{About: control.Hello{Name: "told", Command: "work"}, Do: func(task.Command) task.Reply {
		return task.Reply{Snapshot: &task.Snapshot{At: time.Now()}}
	}, Feed: func(*control.Addition, func(_, _ []uint64)) error { return nil }, Details: control.Details{
		Curves: func() []series.Curves {
			return []series.Curves{{Start: time.Unix(7, 0), Width: task.Seconds(time.Second), Points: make([]series.Point, 3)}}
		},
	}})
	t.Cleanup(s.Close)
	web := newServer(token, []byte{127, 0, 0, 1})
	web.page = func(w io.Writer, r *history.Report, live string) error {
		_, err := fmt.Fprintf(w, "%s %d since %d", live, r.Total.Tasks, r.Curves.Start.Unix())
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := httptest.NewServer(web.guard(web.routes()))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		cancel()
		web.wg.Wait()
	})
	web.findRuns(ctx)
	f := &told{site: &site{t: t, url: h.URL + "/" + token + "/"}, s: s, r: web.find(fmt.Sprint(os.Getpid()))}
	require.NotNil(t, f.r)
	f.finish(1, 1, "") // to be seen by all watchers
	return f
}

// finish makes tasks finish with a command and waits until the server has seen it.
func (f *told) finish(from, to uint64, command string) {
	f.t.Helper()
	var batch []task.Event
	for id := from; id <= to; id++ {
		one := &task.Task{ID: id, Argv: []string{command}}
		batch = append(batch, task.Event{Kind: task.Finished, At: time.Now(), Task: one, Attempt: 1, Result: &task.Result{
			Task: one, Attempt: 1, Outcome: task.OK, Start: time.Now(), End: time.Now(),
		}})
	}
	require.NoError(f.t, f.s.Sink().Consume(batch))
	crewtest.Until(f.t, func() bool {
		f.r.mu.Lock()
		defer f.r.mu.Unlock()
		return f.r.lines.next() >= int(to) // a line for each
	}, "task %d", to)
}

// page returns the path of a page's events, and how many tasks the page includes.
func (f *told) page() (path string, tasks int) {
	f.t.Helper()
	run := fmt.Sprintf("run/%d/", os.Getpid())
	_, text := f.get(run)
	live, n, _ := strings.Cut(text, " ")
	_, err := fmt.Sscan(n, &tasks)
	require.NoError(f.t, err, text)
	return run + strings.TrimPrefix(live, "./"), tasks
}

// TestNoLineIsLost checks that a page and its stream together have every line once, even if the
// connection breaks again and again.
func TestNoLineIsLost(t *testing.T) {
	const tasks, pages = 5000, 8
	f := tell(t)
	var sums [pages]chan int
	for i := range sums {
		sums[i] = make(chan int, 1)
		path, n := f.page()
		go func() {
			b, last, seen := listen(t, f.url+path+"events", ""), "", map[uint64]bool{}
			for n+len(seen) < tasks {
				e := b.next()
				for _, l := range e.lines(t) {
					if seen[l.Task] {
						t.Errorf("task %d is told twice", l.Task)
					}
					seen[l.Task] = true
				}
				if last = e.id; last != "" && i%2 == 1 {
					_ = b.resp.Body.Close()
					b = listen(t, f.url+path+"events", last)
				}
			}
			sums[i] <- n + len(seen)
		}()
		from, to := uint64(i*tasks/pages+1), uint64((i+1)*tasks/pages)
		for at := max(from, 2); at <= to; at += 50 {
			f.finish(at, min(at+49, to), "true")
		}
	}
	for i := range sums {
		require.Equal(t, tasks, crewtest.Receive(t, sums[i], "a page"))
	}
}

// TestSlowBrowser checks that a browser that reads nothing blocks nothing and has to load the page
// again.
func TestSlowBrowser(t *testing.T) {
	t.Parallel()
	const most, each, rounds = 1 << 20, 400, 30 // one round fits
	f := tell(t)
	f.r.mu.Lock()
	f.r.lines.most = most
	f.r.mu.Unlock()
	path, _ := f.page()
	slow := listen(t, f.url+path+"events", "")
	quick := listen(t, f.url+path+"events", "")
	quick.until(func(e sse) bool { return e.name == "status" })
	long := strings.Repeat("x", 900) // shown whole
	id := uint64(1)
	for range rounds {
		f.finish(id+1, id+each, long)
		id += each
		got := 0
		quick.until(func(e sse) bool {
			got += len(e.lines(t))
			return got == each
		})
		f.r.mu.Lock()
		require.LessOrEqual(t, f.r.lines.size, most)
		f.r.mu.Unlock()
	}
	all, _ := io.ReadAll(slow.in) // an error if the server gave it up
	require.Less(t, len(all), rounds*each*len(long), "it was not sent what it had missed")
	require.Equal(t, "reload", listen(t, f.url+path+"events", "").next().name)
	path, n := f.page()
	require.EqualValues(t, id, n)
	f.finish(id+1, id+1, "")
	require.Len(t, listen(t, f.url+path+"events", "").until(func(e sse) bool { return e.name == "lines" }).lines(t), 1)
}

// TestCurvesFromRun checks that the charts of a page come from the run, so that they begin with it.
func TestCurvesFromRun(t *testing.T) {
	_, text := tell(t).get(fmt.Sprintf("run/%d/", os.Getpid()))
	require.Contains(t, text, " since 7")
}

// TestFedRun checks that a page learns that others feed its run, before the first status.
func TestFedRun(t *testing.T) {
	f := tell(t)
	path, _ := f.page()
	b := listen(t, f.url+path+"events", "")
	b.until(func(e sse) bool { return e.name == "queue" })
	require.Equal(t, "status", b.next().name)
}

// TestOtherPlaces checks the answers to pages of another server or of a run that is no longer listed.
func TestOtherPlaces(t *testing.T) {
	f := tell(t)
	path, _ := f.page()
	run, place, _ := strings.Cut(strings.TrimPrefix(path, "run/"), "/")
	require.Equal(t, "reload", listen(t, f.url+"run/"+run+"/X"+place+"events", "").next().name)
	require.Equal(t, "reload", listen(t, f.url+path[:len(path)-1]+"00000/events", "").next().name)
	require.Equal(t, "reload", listen(t, f.url+path[:strings.LastIndex(path, "-")]+"/events", "").next().name)
	require.Equal(t, "over", listen(t, f.url+"run/1/"+place+"events", "").next().name)
	code, _ := f.get("run/" + run + "/X" + place + "parts")
	require.Equal(t, 410, code)
	status, reply := f.do("run/"+run+"/X"+place, `{"op":"stop"}`)
	require.Equal(t, 409, status, reply.Error)
}
