package web

import (
	"context"
	"sync"
	"time"

	"crew/runner/show/history"
	"crew/runner/steer/control"
)

// run is a run as far as it was watched.
type run struct {
	mu     sync.Mutex
	hello  control.Hello // the state is ended or killed once the run is over
	over   time.Time     // since when it is; zero if it is not
	lines  lines
	past   past
	status *control.Status // the latest; nil if there is none
}

// past is what all lines of a run say together.
type past struct {
	fold *history.Fold
	took spread // durations of attempts
}

func newRun(h control.Hello) *run {
	r := &run{}
	r.reset(h)
	return r
}

// begin forgets what happened and begins with a run that is described by h. That changes
// nothing for those who have seen nothing else.
func (r *run) begin(h control.Hello) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines.next() > 0 || !r.hello.Since.Equal(h.Since) {
		r.reset(h)
	}
}

// reset is begin for a caller that holds mu, and wants everybody to begin again.
func (r *run) reset(h control.Hello) {
	r.hello, r.lines, r.past = h, newLines(), past{fold: history.NewFold()}
	r.past.fold.Source(name(&h))
	r.past.fold.Add(&history.Line{Event: control.Event{Name: history.Began, At: h.Since, Text: string(h.Command)}})
}

// add adds what happened. The line is that of crew ctl watch --json, and is not copied.
func (r *run) add(line []byte, reply *control.Reply, output []byte) {
	l := history.Line{Event: *reply.Event, Facts: reply.Facts, Output: output}
	if l.Name == "started" && l.Start.IsZero() {
		l.Start = l.At
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.fold.Add(&l)
	r.lines.add(line)
	if l.Name == "retried" || l.Name == "finished" {
		r.past.took.add(&l.Facts)
	}
}

// learn notes a status, unless it is nil.
func (r *run) learn(status *control.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if status != nil {
		r.status, r.hello.Progress = status, status.Progress
	}
}

// end notes that the run is over, and how.
func (r *run) end(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hello.State, r.over = how, time.Now()
	if how == control.Ended {
		r.past.fold.Add(&history.Line{Event: control.Event{Name: history.Over, At: r.over}})
	}
}

// about returns what is known of the run, and since when it is over.
func (r *run) about() (h control.Hello, over time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hello, r.over
}

// meet notes what a run says of itself now, and reports whether it is this one.
func (r *run) meet(h control.Hello) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !sameRun(&r.hello, &h) {
		return false
	}
	switch {
	case r.hello.Since.IsZero() && !h.Since.IsZero():
		r.reset(h)
	case r.over.IsZero() && h.State == control.Silent:
		r.hello.State = h.State
	case r.over.IsZero():
		r.hello = h
	}
	return true
}

// has reports whether the run's lines have an id.
func (r *run) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.id == id
}

// sameRun reports whether what runs with the same process ID have said can be of one run.
// One that does not answer has said nothing.
func sameRun(a, b *control.Hello) bool {
	return a.Since.IsZero() || b.Since.IsZero() || a.Since.Equal(b.Since)
}

// forget forgets the lines.
func (r *run) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines.drop(len(r.lines.kept))
}

// report returns a report and the place in the lines up to which it tells what happened.
func (r *run) report() (rep *history.Report, id string, next int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past.fold.Report(), r.lines.id, r.lines.next()
}

// news is what a browser at a place is to be sent.
type news struct {
	lines  [][]byte
	status *control.Status
	over   string // how the run ended, once there are no lines behind these
	lost   bool   // the lines of the place are not kept
	rest   bool   // there are lines behind these
}

// since returns the news at a place.
func (r *run) since(id string, next int) (n news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch, ok := r.lines.from(next)
	n = news{lines: batch, status: r.status, lost: !ok || id != r.lines.id, rest: next+len(batch) < r.lines.next()}
	if !r.over.IsZero() && !n.rest {
		n.over = r.hello.State
	}
	return n
}

// pause waits for d. It returns false if ctx ends before that.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
