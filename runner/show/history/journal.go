package history

import (
	"cmp"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// journalLine handles a line of a journal.
func (r *reader) journalLine(rec *record) {
	r.setForm(journalForm)
	switch rec.Name {
	case "journal":
		if r.command, r.began = string(rec.Command), false; r.isDir {
			r.outputs.Close() // may be nil
			r.outputs, _ = journal.OpenOutputs(r.name, rec.Outputs)
		}
	case "run":
		r.begin(rec.At, r.command)
	case "closed":
		if r.began {
			r.emitEvent(Over, rec.At, "")
		}
	case "accepted", "started", "attempt", "ended":
		if !r.began { // compaction removed the line that began the run
			r.begin(cmp.Or(rec.Start, rec.At), r.command)
		}
		r.journalTask(rec)
	}
}

// journalTask handles a line of a journal about a task.
func (r *reader) journalTask(rec *record) {
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
				r.emit(rec.earlier(a))
			}
		}
		delete(r.retried, rec.ID)
		l.Name = "finished"
		if r.isDir && rec.Outcome.Failed() {
			l.Output = shownOutput(rec.Stdout.at.Tail(r.outputs, tailBytes), rec.Stderr.at.Tail(r.outputs, tailBytes))
			unkept := rec.Streamed || rec.Dropped || rec.Made != ""
			if none := (journal.Extent{}); rec.Stdout.at == none && rec.Stderr.at == none && !unkept && rec.Outcome != task.Lost {
				l.Output = []byte{}
			}
		}
	}
	r.emit(l)
}

// maxPieces is the number of unfinished tasks whose output is kept.
const maxPieces = 1000

// watchLine handles a line of crew ctl watch --json.
func (r *reader) watchLine(rec *record) {
	r.setForm(watchForm)
	switch {
	case rec.Name == "watching":
		clear(r.pieces)
		if rec.Hello == nil {
			rec.Hello = &control.Hello{}
		}
		r.begin(rec.At, string(rec.Hello.Command))
		return
	case rec.Name == "" && rec.Stream == "" && rec.End == nil:
		return
	case rec.Stream != "":
		r.piece(rec)
		return
	case !r.began:
		r.begin(rec.At, "")
	}
	switch rec.Name {
	case "":
		r.emitEvent(Over, rec.End.At, "")
		return
	case "retried", "finished":
		if p := r.pieces[rec.Task]; p != nil {
			rec.Stdout, rec.Stderr = p[0], p[1]
			delete(r.pieces, rec.Task)
		}
	}
	r.emit(rec.line(rec.Name))
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
