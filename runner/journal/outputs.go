package journal

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const outputPrefix = "output."

// outputs are the outputs of a journal, one after another in a file, whose number is in the
// first line of the journal. The journal knows where each one is. It is safe for concurrent use.
type outputs struct {
	file    *os.File
	number  int64
	end     atomic.Int64
	syncing sync.Mutex
	dirty   atomic.Bool // something was saved since the last sync, or by an earlier run
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
	o := &outputs{file: f, number: number}
	o.end.Store(end)
	o.dirty.Store(end > 0)
	return o, f.Truncate(end)
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

// find returns the output at p, which may be empty or damaged.
func (o *outputs) find(p extent) savedOutput {
	return savedOutput{io.NewSectionReader(o.file, p.off, p.n)}
}

// sync makes everything durable.
func (o *outputs) sync() error {
	o.syncing.Lock()
	defer o.syncing.Unlock()
	if !o.dirty.Swap(false) {
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

// End returns at most the last n bytes of an output; nil if it is empty, or they are missing. It
// verifies them only if they are the whole.
func (s *Saved) End(p Extent, n int) []byte {
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
