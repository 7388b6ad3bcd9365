package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"crew/runner/task"
)

const (
	outputPrefix = "output."
	// bufferSize is the size up to which outputs are read and written at once.
	bufferSize = 64 << 10
)

var errDamagedOutput = errors.New("its kept output is damaged")

// extent is the position of an output in the file of outputs. In the journal it is
// [offset,length,checksum]. An empty output has length 0 and is not recorded.
type extent struct {
	off, n int64
	sum    uint32 // CRC-32C
}

// appendExtent appends a member for p unless p is empty.
func appendExtent(b []byte, name string, p extent) []byte {
	if p.n == 0 {
		return b
	}
	return fmt.Appendf(task.AppendName(b, name), "[%d,%d,%d]", p.off, p.n, p.sum)
}

// parseExtent parses an extent without its brackets.
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

// smallOutput is the size up to which outputs wait to be written together.
const smallOutput = 4 << 10

// outputs holds the outputs, one after another, in files that are named by the offset
// of their first byte. New ones are added to the last file. The journal knows where each
// one is. It is safe for concurrent use, but nothing may be added during rotate.
type outputs struct {
	dir   string
	queue bool
	dirty atomic.Bool // something was saved since the last sync

	mu      sync.Mutex
	files   []outputFile // ascending
	end     int64
	small   outputWriter // whose buffer is waiting
	waiting bytes.Buffer // what is to be written at from
	from    int64
}

// outputFile is a file of outputs.
type outputFile struct {
	*os.File
	first int64 // offset of its first byte
}

// outputName returns the name of the file whose first byte has an offset.
func outputName(first int64) string { return outputPrefix + strconv.FormatInt(first, 10) }

// firstOf returns the offset of the first byte of the file with a name. ok is false
// if that is no file of outputs.
func firstOf(name string) (first int64, ok bool) {
	digits, ok := strings.CutPrefix(name, outputPrefix)
	first, err := strconv.ParseInt(digits, 10, 64)
	return first, ok && err == nil && first >= 0
}

// open opens the files that hold the outputs from offset first to end, and removes the
// others, which a crash or another journal has left.
func (o *outputs) open(first, end int64) error {
	o.end = end
	o.dirty.Store(end > 0) // an earlier run may have been killed before its sync
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	var firsts []int64
	for _, e := range entries {
		if n, ok := firstOf(e.Name()); ok && n < max(1, end) {
			firsts = append(firsts, n)
		} else if ok || e.Name() == newName {
			_ = os.Remove(filepath.Join(o.dir, e.Name()))
		}
	}
	if slices.Sort(firsts); len(firsts) == 0 {
		firsts = []int64{end}
	}
	for _, n := range firsts {
		if err := o.add(n); err != nil {
			return err
		}
	}
	o.drop(first)
	return o.last().Truncate(end - o.last().first)
}

// add opens or creates the file with the offset first.
func (o *outputs) add(first int64) error {
	f, err := openFile(filepath.Join(o.dir, outputName(first)), os.O_CREATE, o.queue)
	if err == nil {
		o.files = append(o.files, outputFile{f, first})
	}
	return err
}

func (o *outputs) last() outputFile { return o.files[len(o.files)-1] }

// rotate begins a new file and returns its first offset.
func (o *outputs) rotate() (first int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err = o.flushWaiting()
	if err == nil && o.last().first < o.end {
		err = cmp.Or(o.add(o.end), syncDir(o.dir))
	}
	return o.end, err
}

// drop removes the files that hold only outputs before an offset. Those that were opened
// can still be read: a file is closed when nothing refers to it any more.
func (o *outputs) drop(before int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.files) > 1 && o.files[1].first <= before {
		_ = os.Remove(filepath.Join(o.dir, outputName(o.files[0].first)))
		o.files = o.files[1:]
	}
}

// size returns how many bytes the files hold.
func (o *outputs) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end - o.files[0].first
}

func (o *outputs) close() {
	for _, f := range o.files {
		_ = f.Close()
	}
}

// save writes the outputs of a task that has ended and its failed attempts, with attempts
// also the outputs of these, and returns the extents in the order of streams.
func (o *outputs) save(t *task.Task, r *task.Result, attempts bool) (saved [len(streams)]extent, err error) {
	switch n := task.Length(r.Stdout) + task.Length(r.Stderr); {
	case n > smallOutput:
		w := o.reserve(n)
		if err = w.both(r, &saved); err == nil {
			err = w.flush()
		}
	case n > 0:
		err = o.saveSmall(r, n, &saved)
	}
	if err != nil {
		return saved, err
	}
	if len(r.Before) > 0 {
		saved[2], err = o.saveAttempts(t, r.Before, attempts)
	}
	return saved, err
}

// saveSmall is save for n bytes, which wait for flush.
func (o *outputs) saveSmall(r *task.Result, n int64, saved *[len(streams)]extent) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	off := o.end
	if off != o.from+int64(o.waiting.Len()) || o.waiting.Len() > maxWaiting {
		if err := o.flushWaiting(); err != nil {
			return err
		}
		o.from = off
	}
	o.end += n
	o.small = outputWriter{outputs: o, buf: &o.waiting, extent: extent{off: off}}
	return o.small.both(r, saved)
}

// flush writes the outputs that wait.
func (o *outputs) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flushWaiting()
}

func (o *outputs) flushWaiting() error {
	if o.waiting.Len() == 0 {
		return nil
	}
	last := o.last()
	_, err := last.WriteAt(o.waiting.Bytes(), o.from-last.first)
	o.from += int64(o.waiting.Len())
	o.waiting.Reset()
	o.dirty.Store(true)
	return err
}

// saveAttempts writes failed attempts as one extent. Each is a sealed line like
// those of the journal, followed by its stdout and stderr, if they are included.
func (o *outputs) saveAttempts(t *task.Task, before []*task.Result, include bool) (extent, error) {
	lines := make([][]byte, len(before))
	var n int64
	for i, r := range before {
		var stdout, stderr extent
		if include {
			stdout.n, stderr.n = task.Length(r.Stdout), task.Length(r.Stderr)
		}
		lines[i] = appendResult(nil, evAttempt, t, r, func(b []byte) []byte {
			if r.Earlier || !include {
				return task.AppendTrue(b, "unkept")
			}
			return appendExtent(appendExtent(b, streams[0], stdout), streams[1], stderr)
		})
		n += int64(len(lines[i])) + stdout.n + stderr.n
	}
	w := o.reserve(n)
	for i, r := range before {
		if _, err := w.Write(lines[i]); err != nil {
			return extent{}, err
		}
		if !include {
			continue
		}
		for _, out := range [...]task.Output{r.Stdout, r.Stderr} {
			if err := w.copy(out); err != nil {
				return extent{}, err
			}
		}
	}
	return w.cut(), w.flush()
}

// openAttempts returns the failed attempts of t that were saved at p.
func (o *outputs) openAttempts(t *task.Task, p extent) ([]*task.Result, error) {
	if whole, err := o.verified(p); whole == nil || err != nil {
		return nil, err
	}
	whole := o.find(p)
	var before []*task.Result
	for off := whole.off; off < whole.off+whole.n; {
		rec, n, err := readRecord(whole.file, off)
		if err != nil {
			return nil, err
		}
		r, err := rec.facts(t)
		if err != nil {
			return nil, err
		}
		off += n
		r.Stdout = output(whole.file, off, rec.Stdout.n)
		off += rec.Stdout.n
		r.Stderr = output(whole.file, off, rec.Stderr.n)
		off += rec.Stderr.n
		r.Earlier = rec.Unkept
		before = append(before, r)
	}
	return before, nil
}

// find returns the output at p, which may be empty or damaged.
func (o *outputs) find(p extent) *savedOutput {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range slices.Backward(o.files) {
		if f.first <= p.off {
			return &savedOutput{f.File, p.off - f.first, p.n}
		}
	}
	return &savedOutput{n: p.n}
}

// verified returns the output at p after verifying its checksum; nil if p is empty.
func (o *outputs) verified(p extent) (task.Output, error) {
	if p.n == 0 {
		return nil, nil
	}
	out, sum := o.find(p), crc32.New(castagnoli())
	if n, err := out.WriteTo(sum); err != nil || n != p.n || sum.Sum32() != p.sum {
		return nil, errDamagedOutput
	}
	return out, nil
}

// sync makes everything saved so far durable. The caller holds Journal.syncing.
func (o *outputs) sync() error {
	if !o.dirty.Swap(false) {
		return nil
	}
	o.mu.Lock()
	files := o.files
	o.mu.Unlock()
	var err error
	for _, f := range files {
		err = cmp.Or(err, f.Sync())
	}
	return err
}

// reserve returns a writer for the next n bytes of the file. If they are not
// written, they are wasted until the next compaction.
func (o *outputs) reserve(n int64) *outputWriter {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, off := o.last(), o.end
	o.end += n
	buf := bufio.NewWriterSize(io.NewOffsetWriter(last, off-last.first), int(min(n, bufferSize)))
	return &outputWriter{outputs: o, buf: buf, flushed: buf.Flush, extent: extent{off: off}}
}

// outputWriter writes to a reserved part of the file of outputs.
type outputWriter struct {
	outputs *outputs
	buf     io.Writer
	flushed func() error
	extent  extent // written since the last cut
}

// both writes the outputs of a result and sets where they are.
func (w *outputWriter) both(r *task.Result, saved *[len(streams)]extent) error {
	for i, out := range [...]task.Output{r.Stdout, r.Stderr} {
		if err := w.copy(out); err != nil {
			return err
		}
		saved[i] = w.cut()
	}
	return nil
}

func (w *outputWriter) Write(p []byte) (int, error) {
	w.extent.sum = crc32.Update(w.extent.sum, castagnoli(), p)
	w.extent.n += int64(len(p))
	return w.buf.Write(p)
}

// copy writes out, which may be nil.
func (w *outputWriter) copy(out task.Output) error {
	if out == nil {
		return nil
	}
	n, err := out.WriteTo(w)
	if err == nil && n != out.Len() {
		err = fmt.Errorf("an output of %d bytes gave %d", out.Len(), n)
	}
	return err
}

// cut returns the extent of what was written since the last cut.
func (w *outputWriter) cut() extent {
	p := w.extent
	w.extent = extent{off: p.off + p.n}
	return p
}

// flush completes the writing. A sync that begins later covers it.
func (w *outputWriter) flush() error {
	err := w.flushed()
	w.outputs.dirty.Store(true)
	return err
}

// savedOutput is an output in a file of outputs. It is a task.Output and a task.Live.
type savedOutput struct {
	file   *os.File
	off, n int64
}

// output returns the n bytes of a file at off as an output; nil if n is 0.
func output(file *os.File, off, n int64) task.Output {
	if n == 0 {
		return nil
	}
	return &savedOutput{file, off, n}
}

func (s *savedOutput) section() *io.SectionReader { return io.NewSectionReader(s.file, s.off, s.n) }

// Len returns the number of bytes.
func (s *savedOutput) Len() int64 { return s.n }

// ReadAt reads from the output.
func (s *savedOutput) ReadAt(p []byte, off int64) (int, error) { return s.section().ReadAt(p, off) }

// WriteTo writes the whole output to w.
func (s *savedOutput) WriteTo(w io.Writer) (int64, error) {
	return io.CopyBuffer(w, s.section(), make([]byte, min(s.n, bufferSize)))
}

// Tail returns at most the last n bytes.
func (s *savedOutput) Tail(n int) ([]byte, error) {
	b := make([]byte, min(int64(n), s.n))
	_, err := s.ReadAt(b, s.n-int64(len(b)))
	return b, err
}

// Close does nothing: others may read the file.
func (s *savedOutput) Close() error { return nil }
