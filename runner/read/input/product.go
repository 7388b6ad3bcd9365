package input

import (
	"io"
	"slices"
)

// axis is one factor of a product: a source, or several linked ones. A product reads its first
// axis as it advances, and keeps the records of the others in rows.
type axis struct {
	parts []*stream
	rows  []Record
	at    int // index of the current row
}

// next stores the next record in rec. If the axis has several parts, the record has the columns of
// all parts, and the shortest part ends the axis.
func (a *axis) next(rec *Record) error {
	if len(a.parts) == 1 {
		return a.parts[0].next(rec)
	}
	recs := make([]Record, len(a.parts))
	for i, s := range a.parts {
		if err := s.next(&recs[i]); err != nil {
			return err
		}
	}
	*rec = joinRecords(recs)
	return nil
}

// readAll reads all records of the axis into rows. It returns io.EOF if the axis is empty.
func (a *axis) readAll() error {
	for {
		var rec Record
		switch err := a.next(&rec); {
		case err == nil:
			a.rows = append(a.rows, rec)
		case err == io.EOF && len(a.rows) > 0:
			return nil
		default:
			return err
		}
	}
}

// joinRecords returns a record with the columns of all of recs. If a record has an Err, it returns that
// record.
func joinRecords(recs []Record) Record {
	cols := make([]string, 0, len(recs))
	for _, r := range recs {
		if r.Err != nil {
			return r
		}
		cols = append(cols, r.Columns...)
	}
	return Record{Columns: cols}
}

// advance moves the last axis by one record. Whenever an axis starts again, it moves the axis before
// it, too.
func (r *Reader) advance() error {
	for i, a := range slices.Backward(r.axes[1:]) {
		if a.rows != nil {
			a.at = (a.at + 1) % len(a.rows)
		} else if err := a.readAll(); err != nil {
			return err
		}
		r.row[1+i] = a.rows[a.at]
		if a.at > 0 {
			return nil
		}
	}
	return r.axes[0].next(&r.row[0])
}
