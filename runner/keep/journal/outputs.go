package journal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"crew/runner/decide/task"
)

const outputPrefix = "output."

// outputs is a file with the outputs of a journal, one after another. The lines of
// the journal say where each one is, and its first line has the number of the file. It is safe for
// concurrent use.
type outputs struct {
	file   *os.File
	number int64

	syncMu  sync.Mutex // held while the file is synced; locked before mu
	mu      sync.Mutex
	dirty   bool // something was saved since the last sync, or by an earlier run
	end     int64
	pending bytes.Buffer // to be written at end
}

// outputName returns the name of a file of outputs.
func outputName(number int64) string { return outputPrefix + strconv.FormatInt(number, 10) }

// outputNumber returns the number of the file of outputs with the given name. ok is false if name
// is not a file of outputs.
func outputNumber(name string) (number int64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, outputPrefix), 10, 63)
	number = int64(n)
	return number, err == nil && name == outputName(number)
}

// openOutputs opens or creates a file of outputs and truncates it to end bytes.
func (j *Journal) openOutputs(number, end int64) (*outputs, error) {
	f, err := j.openFile(outputName(number), os.O_CREATE)
	if err != nil {
		return nil, err
	}
	return &outputs{file: f, number: number, end: end, dirty: end > 0}, f.Truncate(end)
}

// removeOtherOutputs removes all files of outputs except that of o. A crash or an earlier journal may
// have left them.
func (j *Journal) removeOtherOutputs(o *outputs) {
	entries, _ := os.ReadDir(j.cfg.Dir)
	for _, e := range entries {
		if n, ok := outputNumber(e.Name()); ok && n != o.number {
			_ = os.Remove(filepath.Join(j.cfg.Dir, e.Name()))
		}
	}
}

// size returns the size in bytes, without buffered outputs.
func (o *outputs) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end
}

// sync makes all outputs durable except buffered ones.
func (o *outputs) sync() error {
	o.syncMu.Lock()
	defer o.syncMu.Unlock()
	o.mu.Lock()
	dirty := o.dirty
	o.dirty = false
	o.mu.Unlock()
	if !dirty {
		return nil
	}
	return o.file.Sync()
}

// OpenOutputs opens the file of outputs with the given number, which is in the first line of the
// journal. A run may be writing it, and a compaction may have removed it.
func OpenOutputs(dir string, number int64) (*os.File, error) {
	return os.Open(filepath.Join(dir, outputName(number)))
}

// Extent is the position of an output, as recorded in a line of a journal. The zero Extent is an
// empty output.
type Extent = extent

// Tail returns the last n bytes of the output at p of a file of outputs, or all if there are fewer. It
// returns nil if the output is empty or cannot be read. It verifies the checksum only if it returns the
// whole output.
func (p extent) Tail(file io.ReaderAt, n int) []byte {
	end, err := task.Tail(p.In(file), n)
	if err == nil && p.n <= int64(n) {
		err = p.Copy(io.Discard, file)
	}
	if err != nil || p.n == 0 {
		return nil
	}
	return end
}
