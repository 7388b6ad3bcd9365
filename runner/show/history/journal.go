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
		r.command, r.began = string(rec.Command), false
		r.outputs.Close()                                       // may be nil
		r.outputs, _ = journal.OpenOutputs(r.name, rec.Outputs) // fails for a stream
	case "run":
		r.left = 0
		r.begin(rec.At, r.command)
	case "closed":
		if r.left = rec.Left; r.began {
			if rec.Unread {
				r.emitEvent("draining", rec.At, "")
			}
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
			if a.Attempt > last {
				r.emit(rec.earlier(a))
			}
		}
		delete(r.retried, rec.ID)
		l.Name = "finished"
		if rec.Outcome.Failed() {
			l.Output = Tails{rec.Stdout.at.Tail(r.outputs, tailBytes), rec.Stderr.at.Tail(r.outputs, tailBytes)}.Shown()
			unkept := rec.Streamed || rec.Dropped || rec.Made != ""
			if none := (journal.Extent{}); rec.Stdout.at == none && rec.Stderr.at == none && !unkept && rec.Outcome != task.Lost {
				l.Output = []byte{}
			}
		}
	}
	r.emit(l)
}

// watchLine handles a line of crew ctl watch --json.
func (r *reader) watchLine(rec *record) {
	r.setForm(watchForm)
	switch {
	case rec.Name == "watching":
		if rec.Hello == nil {
			rec.Hello = &control.Hello{}
		}
		r.begin(rec.At, string(rec.Hello.Command))
		return
	case rec.Name == "" && rec.Stream == "" && rec.End == nil:
		return
	case rec.Stream != "":
		r.tails.Add(rec.Stream, rec.Data)
		return
	case !r.began:
		r.begin(rec.At, "")
	}
	rec.Stdout.end, rec.Stderr.end = r.tails[0], r.tails[1]
	if r.tails = (Tails{}); rec.Name == "" {
		r.emit(&Line{Event: control.Event{Name: Over, At: rec.End.At}, Outcomes: rec.End.Outcomes})
	} else {
		r.emit(rec.line(rec.Name))
	}
}
