package input

import (
	"bytes"
	"fmt"
)

// content is a file or a stream that is cut into blocks. Offsets must not precede the next block.
type content interface {
	// bytesAt returns bytes from an offset on: at least n, unless the content ends before. They are
	// valid until the next call.
	bytesAt(off int64, n int) ([]byte, error)
	// endOf returns an offset up to which the content is known to reach. It is greater than off
	// unless the content ends at off.
	endOf(off int64) (int64, error)
}

// cutter finds the ends of blocks, which are ends of records.
type cutter struct {
	boundary []byte // the bytes around the end of a record: its last bytes and the first of the next record
	ending   int    // how many bytes of boundary belong to the record that ends; if boundary is empty, a byte is a record
	bytes    int64  // size of a block, unless a record is longer; 0 for no limit
	records  int    // number of records in a block; 0 for no limit
	roundUp  bool   // end a block after bytes rather than before
	csv      bool   // records are rows of CSV; there is no boundary, and records is not 0

	name  string // of the content, for errors
	lines int    // with csv, the number of line ends in the rows before the next block
}

// span is how many bytes are searched at a time.
const span = 32 << 10

// firstBoundary returns the first offset at which a record that starts at off can have its boundary: no
// record is empty.
func (c *cutter) firstBoundary(off int64) int64 {
	if c.ending == 0 {
		return off + 1
	}
	return off
}

// next returns the end of the block that starts at off. It returns off at the end of the content.
func (c *cutter) next(t content, off int64) (int64, error) {
	if c.records > 0 {
		return c.nextByCount(t, off)
	}
	to := off + c.bytes
	if end, err := t.endOf(to); err != nil || end <= to {
		return end, err
	}
	if !c.roundUp {
		if p, err := c.lastEnd(t, off, to); err != nil || p > off {
			return p, err
		}
	}
	return c.endAfter(t, max(c.firstBoundary(off), to-int64(c.ending)))
}

// nextByCount is next with a limit on the number of records.
func (c *cutter) nextByCount(t content, off int64) (int64, error) {
	p := off
	for range c.records {
		if end, err := t.endOf(p); err != nil || end <= p {
			return p, err
		}
		end, lines, err := c.endOfRecord(t, p)
		if err != nil {
			return off, err
		}
		if c.bytes > 0 && !c.roundUp && end-off > c.bytes && p > off {
			break
		}
		p = end
		if c.lines += lines; c.roundUp && p-off >= c.bytes {
			break
		}
	}
	return p, nil
}

// endOfRecord returns the end of the record that starts at off and, with csv, the number of line ends in it.
func (c *cutter) endOfRecord(t content, off int64) (end int64, lines int, err error) {
	if !c.csv {
		end, err = c.endAfter(t, c.firstBoundary(off))
		return end, 0, err
	}
	row := fieldStart
	if off == 0 {
		row = fileStart
	}
	for end = off; ; {
		b, err := t.bytesAt(end, 1)
		switch {
		case err != nil:
			return off, 0, err
		case len(b) == 0 && row == quoted:
			return off, 0, fmt.Errorf("line %d of %s: no closing quote in the row that begins there", c.lines+1, c.name)
		case len(b) == 0:
			return end, lines, nil
		}
		i := row.findEnd(b)
		if i >= 0 {
			b = b[:i+1]
		}
		if end, lines = end+int64(len(b)), lines+bytes.Count(b, []byte{'\n'}); i >= 0 {
			return end, lines, nil
		}
	}
}

// lastEnd returns the last end of a record between off and to, or off if there is none.
func (c *cutter) lastEnd(t content, off, to int64) (int64, error) {
	size, first := len(c.boundary), c.firstBoundary(off)
	for hi := to + int64(size-c.ending); ; {
		lo := max(first, hi-int64(size+span))
		b, err := t.bytesAt(lo, int(hi-lo))
		if err != nil {
			return off, err
		}
		if i := bytes.LastIndex(b[:min(len(b), int(hi-lo))], c.boundary); i >= 0 {
			return lo + int64(i+c.ending), nil
		}
		if lo == first {
			return off, nil
		}
		hi = lo + int64(size) - 1
	}
}

// endAfter returns the end of the first record whose boundary begins at from or later, or the end
// of the content if there is none.
func (c *cutter) endAfter(t content, from int64) (int64, error) {
	size := len(c.boundary)
	for {
		b, err := t.bytesAt(from, size)
		if err != nil {
			return 0, err
		}
		if i := bytes.Index(b, c.boundary); i >= 0 {
			return from + int64(i+c.ending), nil
		}
		if len(b) < size {
			return from + int64(len(b)), nil
		}
		from += int64(len(b) - size + 1)
	}
}
