package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"crew/runner/task"
)

// smallOutput is up to where an output is gathered for one write, or read at
// once.
const smallOutput = 64 << 10

// extent is where an output stands in the file of outputs. Written out it is
// [offset, length, sum]; the zero extent is no output.
type extent struct {
	off, n int64
	sum    uint32 // CRC-32C
}

// outputs is the file in which outputs are kept, one after another without
// marks: the journal says where each is. It is safe for concurrent use.
type outputs struct {
	file *os.File

	mu    sync.Mutex
	end   int64
	dirty bool // something was written since the last sync
}

var errDamagedOutput = errors.New("its kept output is damaged")

// reserve hands out room for n bytes. Where nothing comes of it the room stays
// empty until the next compaction.
func (o *outputs) reserve(n int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	off := o.end
	o.end += n
	o.dirty = true
	return off
}

// saveAll keeps the outputs of a task that has ended: stdout, stderr, and with
// before those of the attempts that failed before.
func (o *outputs) saveAll(t *task.Task, r *task.Result, before bool) (extents [len(streams)]extent, err error) {
	extents[0], extents[1], err = o.save(r)
	if err == nil && before && len(r.Before) > 0 {
		extents[2], err = o.saveAttempts(t, r.Before)
	}
	return extents, err
}

// save keeps both outputs of an attempt.
func (o *outputs) save(r *task.Result) (stdout, stderr extent, err error) {
	n := task.Length(r.Stdout) + task.Length(r.Stderr)
	if n == 0 {
		return stdout, stderr, nil
	}
	off := o.reserve(n)
	if n > smallOutput {
		if stdout, err = o.stream(off, r.Stdout); err == nil {
			stderr, err = o.stream(off+stdout.n, r.Stderr)
		}
		return stdout, stderr, err
	}
	b := bytes.NewBuffer(make([]byte, 0, n))
	for i, p := range []*extent{&stdout, &stderr} {
		out := [...]task.Output{r.Stdout, r.Stderr}[i]
		from := b.Len()
		if out != nil {
			if _, err := out.WriteTo(b); err != nil {
				return stdout, stderr, err
			}
		}
		*p = extent{off + int64(from), int64(b.Len() - from), crc32.Checksum(b.Bytes()[from:], castagnoli())}
	}
	if int64(b.Len()) != n {
		return stdout, stderr, fmt.Errorf("an output of %d bytes gave %d", n, b.Len())
	}
	_, err = o.file.WriteAt(b.Bytes(), off)
	return stdout, stderr, err
}

func (o *outputs) stream(off int64, out task.Output) (extent, error) {
	if out == nil {
		return extent{}, nil
	}
	w := summer{w: io.NewOffsetWriter(o.file, off)}
	n, err := out.WriteTo(&w)
	if err == nil && n != out.Len() {
		err = fmt.Errorf("an output of %d bytes gave %d", out.Len(), n)
	}
	return extent{off, n, w.sum}, err
}

// sync makes what was saved so far durable.
func (o *outputs) sync() error {
	o.mu.Lock()
	dirty := o.dirty
	o.dirty = false
	o.mu.Unlock()
	if !dirty {
		return nil
	}
	return o.file.Sync()
}

// summer passes bytes on and sums them up.
type summer struct {
	w   io.Writer
	sum uint32
}

func (s *summer) Write(p []byte) (int, error) {
	s.sum = crc32.Update(s.sum, castagnoli(), p)
	return s.w.Write(p)
}

// open is the output at p, after a look at whether it is what was saved; nil
// where there is none. It stays readable until o's file is closed.
func (o *outputs) open(p extent) (task.Output, error) {
	if p.n == 0 {
		return nil, nil
	}
	k := &kept{file: o.file, extent: p}
	if p.off < 0 || p.n < 0 {
		return nil, errDamagedOutput
	}
	w := summer{w: io.Discard}
	if p.n <= smallOutput {
		k.small = make([]byte, p.n)
		if _, err := o.file.ReadAt(k.small, p.off); err != nil {
			return nil, errDamagedOutput
		}
	}
	if n, err := k.WriteTo(&w); err != nil || n != p.n || w.sum != p.sum {
		return nil, errDamagedOutput
	}
	return k, nil
}

// kept is an output of an earlier run. It is a task.Output.
type kept struct {
	file *os.File
	extent
	small []byte // all of it, where it is small
}

// Len is the number of bytes.
func (k *kept) Len() int64 { return k.n }

// WriteTo writes all of it to w.
func (k *kept) WriteTo(w io.Writer) (int64, error) {
	if k.small != nil {
		n, err := w.Write(k.small)
		return int64(n), err
	}
	return io.Copy(w, io.NewSectionReader(k.file, k.off, k.n))
}

// Tail is at most the last n bytes.
func (k *kept) Tail(n int) ([]byte, error) {
	size := min(int64(n), k.n)
	if k.small != nil {
		return k.small[k.n-size:], nil
	}
	b := make([]byte, size)
	_, err := k.file.ReadAt(b, k.off+k.n-size)
	return b, err
}

// Close does nothing: the file is the journal's.
func (k *kept) Close() error { return nil }
