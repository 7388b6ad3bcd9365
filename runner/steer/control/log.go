package control

import (
	"bufio"
	"io"
	"time"

	"crew/runner/decide/task"
)

// Log is a runner.Sink that writes what happens to w, in the lines that watch sends: the
// first one says what run it is, and the last one has the totals. Before the end of a
// failed attempt come lines with the end of its output, as log sends them. Results of
// earlier runs are left out.
type Log struct {
	// KeepsOutput means that results hold everything that tasks wrote, so a failed task without
	// output wrote nothing, and gets a line without data. It must be set before the first event.
	KeepsOutput bool

	w *bufio.Writer // keeps the first error
}

// NewLog returns a Log of the run that about describes. w may block the run.
func NewLog(w io.Writer, about Hello) *Log {
	l := &Log{w: bufio.NewWriterSize(w, 64<<10)}
	about.Command = task.Bytes(task.Shorten(string(about.Command), maxCommand))
	l.write(&Reply{Event: &Event{Name: "watching", At: time.Now()}, Hello: &about})
	return l
}

func (l *Log) write(r *Reply) {
	r.V = Version
	_ = writeLine(l.w, r)
}

// Consume writes a batch of events. It never fails: after an error nothing is written.
func (l *Log) Consume(batch []task.Event) error {
	for i := range batch {
		e := &batch[i]
		ended := e.Kind == task.Finished || e.Kind == task.Retried
		if ended && e.Result.Known() || e.Task != nil && e.Task.Done != nil {
			continue
		}
		if ended && e.Result.Outcome.Failed() {
			l.writeTails(e)
		}
		if f, event := newEvent(e); event.Name != "" {
			l.write(&Reply{Event: &event, Facts: f})
		}
	}
	_ = l.w.Flush()
	return nil
}

// output writes the end of what a failed attempt wrote.
func (l *Log) writeTails(e *task.Event) {
	r, p := e.Result, newEndedAttempt(e).where().EndedTask
	elsewhere := r.Outcome == task.Lost || r.Task.Makes != nil && r.Task.Makes.Stdout
	sendTails(l.write, &p, l.KeepsOutput && !elsewhere)
}

// tell puts lines with the ends of outputs, as log sends them. keeps means that without any, the task
// wrote nothing, which a line without data says.
func sendTails(put func(*Reply), p *task.EndedTask, keeps bool) {
	for i, o := range p.Outputs {
		if text, _ := o.(tail); text != nil || keeps && i == 1 && p.Outputs[0] == nil {
			put(&Reply{Facts: task.Facts{Task: p.Task}, Stream: streams[i], Data: text, Cut: p.Cut[i]})
		}
	}
}

// Close writes the totals, and returns the first error of all.
func (l *Log) Close(final task.Stats) error {
	snap := &task.Snapshot{At: time.Now(), State: task.Done, Stats: final}
	l.write(&Reply{End: true, Run: StatusOf(snap, nil)})
	return l.w.Flush()
}
