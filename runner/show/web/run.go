package web

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"crew/runner/keep/series"
	"crew/runner/show/history"
	"crew/runner/show/view"
	"crew/runner/steer/control"
)

// run is a run that is or was watched.
type run struct {
	mu     sync.Mutex
	shown  shown
	lines  lines
	fold   *history.Fold
	curves []series.Curves // the latest that the run has sent
}

// shown holds the facts of a run for the list of runs and the metrics.
type shown struct {
	view.Listed        // the state is ended or killed once the run is over
	Took        spread // durations of attempts
}

func newRun(h control.Hello) *run {
	r := &run{}
	r.resetLocked(h)
	return r
}

// startOver starts over with the run that h describes. It does nothing if there are no lines yet and h is
// the same run, so open pages stay valid.
func (r *run) startOver(h control.Hello) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines.next() > 0 || !r.shown.Since.Equal(h.Since) {
		r.resetLocked(h)
	}
}

// resetLocked drops everything and starts over with h. All open pages have to be loaded again. The caller
// must hold mu.
func (r *run) resetLocked(h control.Hello) {
	r.shown.Hello, r.shown.Took, r.lines, r.fold, r.curves = h, spread{}, newLines(), history.NewFold(), nil
	r.fold.Source(cmp.Or(h.Name, "run "+strconv.Itoa(h.PID)))
	r.fold.Add(&history.Line{Event: control.Event{Name: history.Began, At: h.Since, Text: string(h.Command)}})
}

// add adds an event. line is a line of crew ctl watch --json and is not copied.
func (r *run) add(line []byte, reply *control.Reply, output []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fold.Add(&history.Line{Event: *reply.Event, Facts: reply.Facts, Output: output})
	r.lines.add(line)
	if reply.Name == "retried" || reply.Name == "finished" {
		r.shown.Took.add(&reply.Facts)
	}
}

// setStatus stores a status, unless it is nil.
func (r *run) setStatus(status *control.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if status != nil {
		r.shown.Status, r.shown.State, r.shown.Progress = status, status.State, status.Progress
	}
}

// end records that the run is over, and how it ended.
func (r *run) end(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown.State, r.shown.Over = how, time.Now()
	if how == control.Ended {
		r.fold.Add(&history.Line{Event: control.Event{Name: history.Over, At: r.shown.Over}})
	}
}

// now returns what to show of the run at this moment.
func (r *run) now() shown {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

// update notes that the run does not answer if h, a new description of a run with the same process ID,
// says so. It returns false if h is another run.
func (r *run) update(h control.Hello) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown.Over.IsZero() && h.State == control.Silent {
		r.shown.State = h.State
	}
	return sameRun(&r.shown.Hello, &h)
}

// hasLines reports whether id identifies the run's lines.
func (r *run) hasLines(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.id == id
}

// sameRun reports whether two descriptions with the same process ID can be of one run. Since is zero
// in the description of a run that does not answer.
func sameRun(a, b *control.Hello) bool {
	return a.Since.IsZero() || b.Since.IsZero() || a.Since.Equal(b.Since)
}

// report returns a report, the id of the lines, and the number of the first line that the report does
// not include.
func (r *run) report() (rep *history.Report, id string, next int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep = r.fold.Report()
	if len(r.curves) > 0 { // also from before the run was watched, but perhaps without its last moments
		rep.Archive = r.curves[1:]
		if r.shown.Over.IsZero() || rep.Curves.Start.Sub(r.curves[0].Start) > time.Second {
			rep.Curves = r.curves[0]
		}
	}
	return rep, r.lines.id, r.lines.next()
}

// askTime is how long a page waits for the curves of a run.
const askTime = time.Second

// askCurves asks the run for its curves, unless it is over or does not answer.
func (r *run) askCurves(ctx context.Context) {
	l := r.now()
	if !l.Over.IsZero() || l.State == control.Silent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if curves := control.Curves(ctx, l.Hello); curves != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.curves = curves
	}
}

// news is what to send to a browser next.
type news struct {
	lines  [][]byte
	status *control.Status
	feeds  bool   // the run takes tasks
	over   string // how the run ended, if no more lines follow
	lost   bool   // the lines that the browser needs are no longer kept
	rest   bool   // more lines follow
}

// since returns the news for a browser that needs line next.
func (r *run) since(id string, next int) (n news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch, ok := r.lines.from(next)
	n = news{lines: batch, status: r.shown.Status, feeds: r.shown.Feeds, lost: !ok || id != r.lines.id, rest: next+len(batch) < r.lines.next()}
	if !r.shown.Over.IsZero() && !n.rest {
		n.over = r.shown.State
	}
	return n
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
