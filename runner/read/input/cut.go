package input

import "bytes"

// content is of a file or a stream that is cut into blocks.
type content interface {
	// at returns bytes of the next block or behind it, from an offset on: at least n,
	// unless it ends before. They are valid until the next call.
	at(off int64, n int) ([]byte, error)
	// last returns where it ends. That is behind the offset unless no byte is there.
	last(off int64) (int64, error)
}

// cutter finds where blocks end: behind a record.
type cutter struct {
	boundary []byte // what is around the end of a record: what it ends with, what the next begins with
	ending   int    // how many bytes of that end the record; without any, a byte is a record
	bytes    int64  // in a block, unless a record is longer; 0 for no limit
	records  int    // in a block; 0 for no limit
	over     bool   // rather more bytes than fewer
}

// span is how many bytes are looked at in one go.
const span = 32 << 10

// first returns where the boundary at the end of a record can begin: no record is empty.
func (c *cutter) first(off int64) int64 {
	if c.ending == 0 {
		return off + 1
	}
	return off
}

// next returns where the block that begins at off ends. That is off at the end of the
// content.
func (c *cutter) next(t content, off int64) (int64, error) {
	if c.records > 0 {
		return c.count(t, off)
	}
	to := off + c.bytes
	if end, err := t.last(to); err != nil || end <= to {
		return end, err
	}
	if !c.over {
		if p, err := c.last(t, off, to); err != nil || p > off {
			return p, err
		}
	}
	return c.after(t, max(c.first(off), to-int64(c.ending)+1))
}

// count is next with a limit on the number of records.
func (c *cutter) count(t content, off int64) (int64, error) {
	p := off
	for range c.records {
		if end, err := t.last(p); err != nil || end <= p {
			return p, err
		}
		end, err := c.after(t, c.first(p))
		if err != nil {
			return off, err
		}
		if c.bytes > 0 && end-off > c.bytes && p > off {
			break
		}
		p = end
	}
	return p, nil
}

// last returns the last end of a record from off to to, or off if there is none.
func (c *cutter) last(t content, off, to int64) (int64, error) {
	size, first := len(c.boundary), c.first(off)
	for hi := to + int64(size-c.ending); ; {
		lo := max(first, hi-int64(size+span))
		b, err := t.at(lo, int(hi-lo))
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

// after returns the end of the first record whose boundary begins at from or behind it,
// or else the end of the content.
func (c *cutter) after(t content, from int64) (int64, error) {
	size := len(c.boundary)
	for {
		b, err := t.at(from, size)
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
