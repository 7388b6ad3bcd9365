package web

import (
	"bytes"
	"context"
	"syscall"
	"time"

	"crew/runner/control"
	"crew/runner/task"
)

// follow watches the run until it is over, or ctx ends. What happens while it asks what was before
// waits at the run.
func (r *run) follow(ctx context.Context) {
	h, _ := r.about()
	w := &watcher{r: r}
	how := control.UntilOver(ctx, h, func(line []byte, reply *control.Reply) error {
		switch {
		case reply.Hello != nil:
			return w.begin(ctx, *reply.Hello, reply.Run)
		case reply.Stream != "":
			w.output = append(append([]byte{}, w.output...), reply.Data...)
		case reply.Event != nil:
			w.take(heard{bytes.Clone(line), reply})
			w.output = nil
		}
		r.learn(reply.Run)
		return nil
	}, func(error) {})
	if how != "" {
		r.end(how)
	}
}

// watcher adds what happens in a run. What was before it began to listen is told by other
// requests.
type watcher struct {
	r      *run
	output []byte         // the end of what the attempt wrote that the next line is about; nil if that is unknown
	told   map[uint64]int // how far tasks are by what the other requests told, as farOf has it
	until  time.Time      // watch tells nothing that is not new behind this
}

// heard is a line of watch and what it says.
type heard struct {
	line  []byte
	reply *control.Reply
}

// take adds a line if it is news.
func (w *watcher) take(e heard) {
	if w.told != nil && e.reply.At.After(w.until) {
		w.told = nil
	}
	if far := farOf(e.reply.Name, e.reply.Attempt); far == 0 || far > w.told[e.reply.Task] {
		w.add(e)
	}
}

func (w *watcher) add(e heard) { w.r.add(e.line, e.reply, w.output) }

// farOf returns how far an event of an attempt shows its task to be; 0 if it is about none.
func farOf(name string, attempt int) int {
	switch name {
	case "admitted":
		return 1
	case "started":
		return 2*attempt + 2
	case "retried", "finished":
		return 2*attempt + 3
	}
	return 0
}

// begin notes how a run is that is watched from now on, asks it what was before, and adds that. It
// fails if another run has the process ID now.
func (w *watcher) begin(ctx context.Context, h control.Hello, status *control.Status) error {
	if known, _ := w.r.about(); !sameRun(&known, &h) {
		return &control.Unreached{PID: h.PID, Err: syscall.ECONNREFUSED}
	}
	past, err := control.Ask(ctx, h, control.Request{Op: "explain", Only: "ended"}, nil)
	if err != nil { // as when the run has just ended
		past = &control.Reply{}
	}
	if status != nil {
		h.State = status.State
	}
	w.r.begin(h)
	w.r.learn(status)
	w.told, w.until = map[uint64]int{}, time.Now()
	w.tellEnded(past.Wheres, h.Since)
	if status != nil {
		w.tellMissed(status)
		w.tellRunning(status.Tasks)
	}
	return nil
}

// tellEnded adds tasks that have ended since the run began.
func (w *watcher) tellEnded(list []control.Where, since time.Time) {
	for i := range list {
		f := list[i].Facts
		if end := f.Start.Add(time.Duration(f.Duration)); !end.Before(since) {
			w.tell("finished", end, f)
		}
	}
}

// tellMissed adds how many tasks have ended in this run of which nothing is known.
func (w *watcher) tellMissed(s *control.Status) {
	n := s.Done + s.Dropped - int64(len(w.told))
	for _, earlier := range s.Earlier {
		n -= earlier
	}
	if n > 0 {
		r := &control.Reply{V: control.Version, Event: &control.Event{Name: "lost", At: s.At, Count: n}}
		w.add(heard{encoded(r), r})
	}
}

// tellRunning adds tasks that run, unless they have ended meanwhile.
func (w *watcher) tellRunning(list []control.Where) {
	for i := range list {
		f := list[i].Facts
		f.Duration, f.PID = 0, 0
		w.tell("started", f.Start, f)
	}
}

// tell adds an event that watch may tell again, unless more was told already.
func (w *watcher) tell(name string, at time.Time, f task.Facts) {
	if far := farOf(name, f.Attempt); far > w.told[f.Task] {
		w.told[f.Task] = far
		w.add(encode(name, at, f))
	}
}
