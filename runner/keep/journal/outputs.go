package journal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const outputPrefix = "output."

// outputs are the outputs of a journal, one after another in a file, whose number is in the
// first line of the journal. The journal knows where each one is. It is safe for concurrent use.
type outputs struct {
	file   *os.File
	number int64

	syncing sync.Mutex // held, before mu is taken, while the file is synced
	mu      sync.Mutex
	dirty   bool // something was saved since the last sync, or by an earlier run
	end     int64
	small   outputWriter // whose buffer is waiting
	waiting bytes.Buffer // what is to be written at from
	from    int64
}

// outputName returns the name of the file of outputs with a number.
func outputName(number int64) string { return outputPrefix + strconv.FormatInt(number, 10) }

// outputNumber returns the number of the file with a name. ok is false if that is no file of
// outputs.
func outputNumber(name string) (number int64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, outputPrefix), 10, 63)
	number = int64(n)
	return number, err == nil && name == outputName(number)
}

// outputs opens or creates a file of outputs, which ends at an offset.
func (d directory) outputs(number, end int64) (*outputs, error) {
	f, err := d.open(outputName(number), os.O_CREATE)
	if err != nil {
		return nil, err
	}
	return &outputs{file: f, number: number, end: end, dirty: end > 0}, f.Truncate(end)
}

// clear removes the other files of outputs, which a crash or another journal has left.
func (d directory) clear(o *outputs) {
	entries, _ := os.ReadDir(d.path)
	for _, e := range entries {
		if n, ok := outputNumber(e.Name()); ok && n != o.number {
			_ = os.Remove(filepath.Join(d.path, e.Name()))
		}
	}
}

// size returns how many bytes there are.
func (o *outputs) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end
}

// find returns the output at p, which may be empty or damaged.
func (o *outputs) find(p extent) savedOutput {
	return savedOutput{io.NewSectionReader(o.file, p.off, p.n)}
}

// sync makes everything durable that was flushed, or is large.
func (o *outputs) sync() error {
	o.syncing.Lock()
	defer o.syncing.Unlock()
	o.mu.Lock()
	dirty := o.dirty
	o.dirty = false
	o.mu.Unlock()
	if !dirty {
		return nil
	}
	return o.file.Sync()
}

// Saved reads the outputs that a directory keeps, without its lock: a run may be writing
// there meanwhile.
type Saved struct{ out outputs }

// OpenSaved opens the file of outputs with a number, which is in the first line of the journal. A
// compaction may have removed it.
func OpenSaved(dir string, number int64) (*Saved, error) {
	f, err := os.Open(filepath.Join(dir, outputName(number)))
	return &Saved{outputs{file: f}}, err
}

// Close closes the file.
func (s *Saved) Close() { _ = s.out.file.Close() }

// Extent is where a line of a journal says that an output is. The zero Extent is for an empty one.
type Extent = extent

// Tail returns at most the last n bytes of an output; nil if it is empty, or they are missing. It
// verifies them only if they are the whole.
func (s *Saved) Tail(p Extent, n int) []byte {
	if p.n == 0 {
		return nil
	}
	end, err := s.out.find(p).Tail(n)
	if err == nil && p.n <= int64(n) {
		_, err = s.out.verified(p)
	}
	if err != nil {
		return nil
	}
	return end
}
