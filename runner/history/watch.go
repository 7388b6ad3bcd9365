package history

// maxPieces is of how many tasks that have not ended the outputs are kept.
const maxPieces = 1000

// watched tells what a line of crew ctl watch --json says.
func (r *reader) watched(rec *record) error {
	if err := r.turn(watchForm); err != nil {
		return err
	}
	switch {
	case rec.Name == "watching":
		clear(r.pieces)
		return r.begin(rec.At, rec.command)
	case rec.Name == "" && rec.stream == "" && rec.end == nil:
		return nil
	case rec.stream != "":
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
		l.Name, l.At = Over, *rec.end
		return r.tell(&l)
	case "started":
		if rec.Start.IsZero() {
			rec.Start = rec.At
		}
	case "retried", "finished":
		if p := r.pieces[rec.Task]; p != nil {
			rec.outputs = *p
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
	if rec.stream == "stderr" {
		o = &p[1]
	}
	if o.end == nil { // a piece may be empty, which is to be known, too
		o.end = []byte{}
	}
	o.end = append(o.end, rec.data...)
	o.end = append(o.end[:0], o.end[max(0, len(o.end)-tailBytes):]...)
}
