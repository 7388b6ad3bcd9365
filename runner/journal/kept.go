package journal

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"crew/runner/task"
)

// Output returns the kept output of a task that has ended: in a queue any that is
// not forgotten, otherwise one of this run. It reads the journal, so it takes the
// longer the longer that is; calls wait for one another.
func (j *Journal) Output(id uint64) (stdout, stderr task.Live, ok bool) {
	j.reading.Lock()
	defer j.reading.Unlock()
	j.Idle() // writes what it is to find
	r, err := j.endOf(id)
	if err != nil || r.Streamed || r.Dropped {
		return nil, nil, false
	}
	return &keptOutput{j, r.Stdout}, &keptOutput{j, r.Stderr}, true
}

// endOf returns the record of the end of a task.
func (j *Journal) endOf(id uint64) (*record, error) {
	f, err := os.Open(filepath.Join(j.cfg.Dir, journalName)) // j.file may be replaced meanwhile
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(j.began, io.SeekStart); err != nil {
		return nil, err
	}
	number := strconv.AppendUint([]byte(`,"seq":`), id, 10)
	number = append(number, ',')
	in := lineReader{Reader: bufio.NewReaderSize(f, usualMost)}
	for {
		text, _, err := in.next()
		if err != nil {
			return nil, err
		}
		if !bytes.HasPrefix(text, begin(nil, evEnded)) || !bytes.Contains(text, number) {
			continue
		}
		if body, ok := unseal(text); ok {
			return parse(body)
		}
	}
}

// keptOutput is an output in the file of outputs. It is a task.Live.
type keptOutput struct {
	journal *Journal
	extent
}

// ReadAt reads from the output. The error is fs.ErrNotExist once it is forgotten.
func (k *keptOutput) ReadAt(p []byte, off int64) (int, error) {
	n, err := io.NewSectionReader(k.journal.out.file, k.off, k.n).ReadAt(p, off)
	if k.n > 0 && k.off < k.journal.queue.freed.Load() {
		return 0, fs.ErrNotExist
	}
	return n, err
}

// Close does nothing: the file stays open as long as the journal.
func (k *keptOutput) Close() error { return nil }
