package control

import (
	"bufio"
	"io"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// Log is a runner.Sink that writes events as lines, like those of watch. The first line
// describes the run, and the last one has the totals. The end of a failed attempt comes after lines with
// the end of its output, in the form of log. Results of earlier runs are left out.
type Log struct {
	// KeepsOutput means that results hold everything that tasks wrote, so a failed task without
	// output wrote nothing, and gets a line without data. It must be set before the first event.
	KeepsOutput bool

	w *bufio.Writer // remembers the first error
}

// NewLog returns a Log that writes to w about the run that about describes. A write that blocks blocks the run.
func NewLog(w io.Writer, about Hello) *Log {
	l := &Log{w: bufio.NewWriterSize(w, 64<<10)}
	l.write(&Reply{Event: &Event{Name: "watching", At: time.Now()}, Hello: &about})
	return l
}

func (l *Log) write(r *Reply) {
	r.V = Version
	_ = writeLine(l.w, r)
}

// Consume writes a batch of events. It never fails: after an error it writes nothing more.
func (l *Log) Consume(batch []task.Event) error {
	for i := range batch {
		e := &batch[i]
		ended := e.Kind == task.Finished || e.Kind == task.Retried
		if ended && e.Result.FromEarlierRun() || e.Kind == task.Admitted && mayHaveEnded(e.Task) {
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

// mayHaveEnded reports whether a task has ended in an earlier run, unless it has to make its files again.
func mayHaveEnded(t *task.Task) bool { return t.Done != nil || t.Makes != nil && t.Makes.Done != nil }

// writeTails writes the end of the output of a failed attempt.
func (l *Log) writeTails(e *task.Event) {
	r, p := e.Result, newEndedAttempt(e)
	p.keepTails(r)
	elsewhere := r.Outcome == task.Lost || r.Task.Makes != nil && r.Task.Makes.Stdout
	sendTails(l.write, &p.EndedTask, l.KeepsOutput && !elsewhere)
}

// sendTails sends lines with the ends of outputs, in the form of log. With keeps, a task without outputs wrote
// nothing, and gets a line without data.
func sendTails(put func(*Reply), p *task.EndedTask, keeps bool) {
	for i, o := range p.Outputs {
		if text, _ := o.(spool.Text); text != nil || keeps && i == 1 && p.Outputs[0] == nil {
			put(&Reply{Facts: task.Facts{Task: p.Task, Cut: p.Cut[i]}, Stream: streams[i], Data: text})
		}
	}
}

// Close writes the totals, and returns the first error of any write.
func (l *Log) Close(final task.Stats) error {
	snap := &task.Snapshot{At: time.Now(), State: task.StateDone, Stats: final}
	l.write(&Reply{End: true, Run: StatusOf(snap, nil)})
	return l.w.Flush()
}
