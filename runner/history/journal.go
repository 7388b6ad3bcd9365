package history

import (
	"crew/runner/control"
	"crew/runner/journal"
	"crew/runner/task"
)

// past is what is known of a journal.
type past struct {
	command string
	retried map[string]int // the last attempt of a task that has not ended, by its ID
	saved   *journal.Saved // nil without its directory
}

// journaled tells what a line of a journal says.
func (r *reader) journaled(rec *record) error {
	r.turn(journalForm)
	switch rec.Name {
	case "journal":
		r.past.command, r.began = string(rec.Command), false
		return nil
	case "run":
		return r.begin(rec.At, r.past.command)
	case "closed":
		if !r.began {
			return nil
		}
		l := Line{}
		l.Name, l.At = Over, rec.At
		return r.tell(&l)
	case "accepted", "started", "attempt", "ended":
	default:
		return nil
	}
	if !r.began { // a compaction has removed the line about it
		at := rec.Start
		if at.IsZero() {
			at = rec.At
		}
		if err := r.begin(at, r.past.command); err != nil {
			return err
		}
	}
	return r.journalTask(rec)
}

// journalTask tells what a line of a journal says of a task.
func (r *reader) journalTask(rec *record) error {
	l := rec.line(rec.Name)
	l.Again = rec.Again
	switch rec.Name {
	case "accepted":
		l.Name = "admitted"
	case "started":
		l.At = rec.Start
	case "attempt":
		switch l.Name = "finished"; {
		case rec.Outcome == task.Cancelled: // the next run does the task again
			l.Name = "retried"
		case rec.Retried, rec.Outcome.Replaced():
			l.Name = "retried"
			r.past.retried[rec.ID] = rec.Attempt
		}
	case "ended":
		if err := r.earlierAttempts(rec); err != nil {
			return err
		}
		delete(r.past.retried, rec.ID)
		l.Name = "finished"
		if r.past.saved != nil && rec.Outcome.Failed() {
			l.Output = seen(r.past.saved.End(rec.Stdout.at, tailBytes), r.past.saved.End(rec.Stderr.at, tailBytes))
			unkept := rec.Streamed || rec.Dropped || rec.Made != ""
			if empty := rec.Stdout.at[1]+rec.Stderr.at[1] == 0; empty && !unkept && rec.Outcome != task.Lost {
				l.Output = []byte{}
			}
		}
	}
	return r.tell(&l)
}

// earlierAttempts tells the attempts before the last one of a task whose lines a compaction has
// removed.
func (r *reader) earlierAttempts(rec *record) error {
	last := r.past.retried[rec.ID]
	for _, a := range rec.Attempts {
		if a.Attempt <= last || last == rec.Attempt-1 {
			continue
		}
		l := rec.earlier(a)
		if err := r.tell(&l); err != nil {
			return err
		}
	}
	return nil
}

// maxPieces is of how many tasks that have not ended the outputs are kept.
const maxPieces = 1000

// watched tells what a line of crew ctl watch --json says.
func (r *reader) watched(rec *record) error {
	r.turn(watchForm)
	switch {
	case rec.Name == "watching":
		clear(r.pieces)
		if rec.Hello == nil {
			rec.Hello = &control.Hello{}
		}
		return r.begin(rec.At, string(rec.Hello.Command))
	case rec.Name == "" && rec.Stream == "" && rec.End == nil:
		return nil
	case rec.Stream != "":
		r.piece(rec)
		return nil
	case !r.began:
		if err := r.begin(rec.At, ""); err != nil {
			return err
		}
	}
	switch rec.Name {
	case "":
		l := Line{}
		l.Name, l.At = Over, rec.End.At
		return r.tell(&l)
	case "started":
		if rec.Start.IsZero() {
			rec.Start = rec.At
		}
	case "retried", "finished":
		if p := r.pieces[rec.Task]; p != nil {
			rec.Stdout, rec.Stderr = p[0], p[1]
			delete(r.pieces, rec.Task)
		}
	}
	l := rec.line(rec.Name)
	return r.tell(&l)
}

// piece keeps the end of an output.
func (r *reader) piece(rec *record) {
	p := r.pieces[rec.Task]
	if p == nil {
		if len(r.pieces) == maxPieces {
			clear(r.pieces)
		}
		p = new([2]output)
		r.pieces[rec.Task] = p
	}
	o := &p[0]
	if rec.Stream == "stderr" {
		o = &p[1]
	}
	if o.end == nil { // a piece may be empty, which is to be known, too
		o.end = []byte{}
	}
	o.end = append(o.end, rec.Data...)
	o.end = append(o.end[:0], o.end[max(0, len(o.end)-tailBytes):]...)
}
