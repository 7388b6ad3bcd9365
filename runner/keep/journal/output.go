package journal

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"strconv"

	"crew/runner/decide/task"
)

// smallOutput is the maximum size of outputs that are collected and written together.
const smallOutput = 4 << 10

// ErrDamaged is the error of an output without its checksum.
var ErrDamaged = errors.New("its kept output is damaged")

// extent is the position of an output in the file of outputs, recorded in the journal as
// [offset,length,checksum]. An empty output has length 0 and is not recorded.
type extent struct {
	off, n int64
	sum    uint32 // CRC-32C
}

// appendExtent appends a member for p, unless p is empty.
func appendExtent(b []byte, name string, p extent) []byte {
	if p.n == 0 {
		return b
	}
	b = task.AppendName(b, name)
	next := byte('[')
	for _, n := range [...]int64{p.off, p.n, int64(p.sum)} { // fmt would take four times as long
		b, next = strconv.AppendInt(append(b, next), n, 10), ','
	}
	return append(b, ']')
}

// parseExtent parses an extent without brackets.
func parseExtent(v []byte) (p extent, ok bool) {
	var n [3]int64
	for i := range n {
		digits, rest, _ := bytes.Cut(v, []byte(","))
		d, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil || d < 0 {
			return p, false
		}
		n[i], v = d, rest
	}
	if len(v) > 0 || n[2] > math.MaxUint32 || n[0]+n[1] < 0 {
		return p, false
	}
	return extent{n[0], n[1], uint32(n[2])}, true
}

// save writes an output, which may be nil, and returns its extent. Small outputs are buffered until
// flush. If only a part can be written, its space is wasted until the next compaction.
func (o *outputs) save(out task.Output) (extent, error) {
	n := task.Length(out)
	if n == 0 {
		return extent{}, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > smallOutput || o.pending.Len() > maxPending {
		if err := o.flushLocked(); err != nil {
			return extent{}, err
		}
	}
	w := outputWriter{&o.pending, extent{off: o.end + int64(o.pending.Len())}}
	if n <= smallOutput {
		_, err := out.WriteTo(&w)
		return w.extent, err
	}
	o.end += n
	o.mu.Unlock()
	w.to = io.NewOffsetWriter(o.file, w.extent.off) // outputs are written in large parts
	_, err := out.WriteTo(&w)
	o.mu.Lock()
	o.dirty = true // the next sync covers it
	return w.extent, err
}

// flush writes the buffered outputs.
func (o *outputs) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flushLocked()
}

func (o *outputs) flushLocked() error {
	if o.pending.Len() == 0 {
		return nil
	}
	_, err := o.file.WriteAt(o.pending.Bytes(), o.end)
	o.end += int64(o.pending.Len())
	o.pending.Reset()
	o.dirty = true
	return err
}

// verified returns the output at p after checking its checksum, or nil if p is empty.
func (o *outputs) verified(p extent) (task.Output, error) {
	if p.n == 0 {
		return nil, nil
	}
	return p.In(o.file), p.Copy(io.Discard, o.file)
}

// Copy copies the output at p of a file of outputs to w. It returns ErrDamaged if the output does not
// have its checksum.
func (p extent) Copy(w io.Writer, file io.ReaderAt) error {
	got := outputWriter{w, extent{off: p.off}}
	_, err := p.In(file).WriteTo(&got)
	if err == nil && got.extent != p {
		err = ErrDamaged
	}
	return err
}

// In returns the output at p of a file of outputs. It may be empty or damaged.
func (p extent) In(file io.ReaderAt) savedOutput {
	return savedOutput{io.NewSectionReader(file, p.off, p.n)}
}

// outputWriter writes one output and notes its extent.
type outputWriter struct {
	to     io.Writer
	extent extent // the part written so far
}

func (w *outputWriter) Write(p []byte) (int, error) {
	w.extent.sum = crc32.Update(w.extent.sum, castagnoli(), p)
	w.extent.n += int64(len(p))
	return w.to.Write(p)
}

// savedOutput is an output in a file of outputs. It is a task.Output and a task.Live.
type savedOutput struct{ *io.SectionReader }

// Len returns the length in bytes.
func (s savedOutput) Len() int64 { return s.Size() }

// WriteTo writes the whole output to w.
func (s savedOutput) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.LimitReader(io.NewSectionReader(s, 0, s.Size()), s.Size())) // needs no buffer larger than s
}

// Close does nothing, because the file is shared.
func (s savedOutput) Close() error { return nil }
