package journal

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const outputPrefix = "output."

// outputs holds the outputs, one after another, in files that are named by the offset
// of their first byte. New ones are added to the last file. The journal knows where each
// one is. It is safe for concurrent use, but nothing may be added during rotate.
type outputs struct {
	dir   directory
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
	n, err := strconv.ParseUint(strings.TrimPrefix(name, outputPrefix), 10, 63)
	first = int64(n)
	return first, err == nil && name == outputName(first)
}

// open opens the files that hold the outputs from offset first to end, and removes the
// others, which a crash or another journal has left.
func (o *outputs) open(first, end int64) error {
	o.end = end
	o.dirty.Store(end > 0) // an earlier run may have been killed before its sync
	firsts, err := o.dir.outputs()
	if err != nil {
		return err
	}
	n, _ := slices.BinarySearch(firsts, max(1, end))
	for _, other := range firsts[n:] {
		o.remove(other)
	}
	created := n == 0
	if firsts = firsts[:n]; created {
		firsts = []int64{end}
	}
	for _, n := range firsts {
		if err := o.add(n); err != nil {
			return err
		}
	}
	o.drop(first)
	if err := o.last().Truncate(end - o.last().first); err != nil || !created {
		return err
	}
	return o.dir.sync()
}

// outputs returns the offsets of the files of outputs that are there, ascending.
func (d directory) outputs() (firsts []int64, err error) {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		if first, ok := firstOf(e.Name()); ok {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	return firsts, err
}

func (o *outputs) remove(first int64) { _ = os.Remove(filepath.Join(o.dir.path, outputName(first))) }

// add opens or creates the file with the offset first.
func (o *outputs) add(first int64) error {
	f, err := o.dir.open(outputName(first), os.O_CREATE)
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
		err = cmp.Or(o.add(o.end), o.dir.sync())
	}
	return o.end, err
}

// drop removes the files that hold only outputs before an offset. Those that were opened
// can still be read: a file is closed when nothing refers to it any more.
func (o *outputs) drop(before int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.files) > 1 && o.files[1].first <= before {
		o.remove(o.files[0].first)
		o.files = o.files[1:]
	}
}

// size returns how many bytes the files hold.
func (o *outputs) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end - o.files[0].first
}

// find returns the output at p, which may be empty or damaged.
func (o *outputs) find(p extent) savedOutput {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range slices.Backward(o.files) {
		if f.first <= p.off {
			return savedAt(f, p.off-f.first, p.n)
		}
	}
	return savedAt((*os.File)(nil), 0, p.n)
}

// sync makes everything saved so far durable. The caller holds Journal.syncing.
func (o *outputs) sync() error {
	if !o.dirty.Swap(false) {
		return nil
	}
	return o.syncFiles()
}

func (o *outputs) syncFiles() error {
	o.mu.Lock()
	files := o.files
	o.mu.Unlock()
	var err error
	for _, f := range files {
		err = cmp.Or(err, f.Sync())
	}
	return err
}

func (o *outputs) close() {
	for _, f := range o.files {
		_ = f.Close()
	}
}
