package history

import (
	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// journalLine handles a line of a journal.
func (r *reader) journalLine(rec *record) error {
	r.setForm(journalForm)
	switch rec.Name {
	case "journal":
		if r.command, r.began = string(rec.Command), false; r.saved != nil {
			r.saved.Close()
			r.saved, _ = journal.OpenSaved(r.name, rec.Outputs)
		}
		return nil
	case "run":
		return r.begin(rec.At, r.command)
	case "closed":
		if !r.began {
			return nil
		}
		return r.emitEvent(Over, rec.At, "")
	case "accepted", "started", "attempt", "ended":
	default:
		return nil
	}
	if !r.began { // compaction removed the line that began the run
		at := rec.Start
		if at.IsZero() {
			at = rec.At
		}
		if err := r.begin(at, r.command); err != nil {
			return err
		}
	}
	return r.journalTask(rec)
}

// journalTask handles a line of a journal about a task.
func (r *reader) journalTask(rec *record) error {
	l := rec.line(rec.Name)
	switch rec.Name {
	case "accepted":
		l.Name = "admitted"
	case "started":
		l.At = rec.Start
	case "attempt":
		switch l.Name = "finished"; {
		case rec.Outcome == task.Cancelled: // the next run repeats the task
			l.Name = "retried"
		case rec.Retried, rec.Outcome.Replaced():
			l.Name = "retried"
			r.retried[rec.ID] = rec.Attempt
		}
	case "ended":
		last := r.retried[rec.ID]
		for _, a := range rec.Attempts { // compaction may have removed their own lines
			if a.Attempt > last && last != rec.Attempt-1 {
				if err := r.emit(rec.earlier(a)); err != nil {
					return err
				}
			}
		}
		delete(r.retried, rec.ID)
		l.Name = "finished"
		if r.saved != nil && rec.Outcome.Failed() {
			l.Output = shownOutput(r.saved.Tail(rec.Stdout.at, tailBytes), r.saved.Tail(rec.Stderr.at, tailBytes))
			unkept := rec.Streamed || rec.Dropped || rec.Made != ""
			if none := (journal.Extent{}); rec.Stdout.at == none && rec.Stderr.at == none && !unkept && rec.Outcome != task.Lost {
				l.Output = []byte{}
			}
		}
	}
	return r.emit(l)
}

// maxPieces is the number of unfinished tasks whose output is kept.
const maxPieces = 1000

// watchLine handles a line of crew ctl watch --json.
func (r *reader) watchLine(rec *record) error {
	r.setForm(watchForm)
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
		return r.emitEvent(Over, rec.End.At, "")
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
	return r.emit(rec.line(rec.Name))
}

// piece appends a piece of output to its task's, and keeps only the end.
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
	if o.end == nil { // an empty piece means that the output is known to be empty
		o.end = []byte{}
	}
	o.end = append(o.end, rec.Data...)
	o.end = append(o.end[:0], o.end[max(0, len(o.end)-tailBytes):]...)
}
