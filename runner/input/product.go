package input

import "io"

// axis is one factor of a product: a source, or several that are linked and go
// in step. The first axis of a product is read as it comes, the others are held
// in rows.
type axis struct {
	parts []*stream
	rows  []Record
	slab  slab
	err   error // what ended linked parts
}

// next puts the next record of every part, as one, into rec. The shortest part
// ends them all.
func (a *axis) next(rec *Record) error {
	if len(a.parts) == 1 {
		return a.parts[0].next(rec)
	}
	recs := make([]Record, len(a.parts))
	for i := 0; i < len(recs) && a.err == nil; i++ {
		a.err = a.parts[i].next(&recs[i])
	}
	if a.err == nil {
		*rec = join(recs, &a.slab)
	}
	return a.err
}

// hold reads all of the axis.
func (a *axis) hold() error {
	for {
		var rec Record
		err := a.next(&rec)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		a.rows = append(a.rows, rec)
	}
}

// join makes one record of several: their columns side by side. It is in error
// when one of them is.
func join(recs []Record, sl *slab) Record {
	n := 0
	for _, r := range recs {
		if r.Err != nil {
			return r
		}
		n += len(r.Columns)
	}
	cols := sl.columns(n)
	n = 0
	for _, r := range recs {
		n += copy(cols[n:], r.Columns)
	}
	return Record{Columns: cols}
}

// product puts the next record of the product of several axes into rec, the
// last axis varying fastest.
func (r *Reader) product(rec *Record) error {
	first, inner := r.axes[0], r.axes[1:]
	if r.row == nil {
		r.row = make([]Record, len(r.axes))
		r.at = make([]int, len(inner))
		r.err = holdAll(inner)
		if r.err == nil {
			r.err = first.next(&r.row[0])
		}
	} else if r.err == nil && !r.step(inner) {
		r.err = first.next(&r.row[0])
	}
	if r.err != nil {
		return r.err
	}
	for i, a := range inner {
		r.row[1+i] = a.rows[r.at[i]]
	}
	*rec = join(r.row, &r.slab)
	return nil
}

// holdAll reads the inner axes. One that is empty ends the product: io.EOF.
func holdAll(inner []*axis) error {
	for _, a := range inner {
		if err := a.hold(); err != nil {
			return err
		}
		if len(a.rows) == 0 {
			return io.EOF
		}
	}
	return nil
}

// step moves the inner axes on by one and says whether they have not begun anew.
func (r *Reader) step(inner []*axis) bool {
	for i := len(inner) - 1; i >= 0; i-- {
		r.at[i]++
		if r.at[i] < len(inner[i].rows) {
			return true
		}
		r.at[i] = 0
	}
	return false
}
