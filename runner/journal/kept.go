package journal

import (
	"bufio"
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"crew/runner/task"
)

// Past returns what is recorded of tasks that have ended, as far as it is known: in a
// queue of any that is not forgotten, otherwise of those of this run. It reads the
// journal, so it takes the longer the longer that is; calls wait for one another.
func (j *Journal) Past(ids ...uint64) map[uint64]task.Past {
	j.reading.Lock()
	defer j.reading.Unlock()
	j.Idle() // writes what it is to find
	found := map[uint64]task.Past{}
	f, err := openFile(filepath.Join(j.cfg.Dir, journalName), 0, j.cfg.Queue != nil) // j.file may be replaced meanwhile
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(j.began, io.SeekStart); err != nil {
		return nil
	}
	in := lineReader{Reader: bufio.NewReaderSize(f, usualMost)}
	for len(found) < len(ids) {
		text, _, err := in.next()
		if err != nil {
			break
		}
		if id := endOf(text); slices.Contains(ids, id) {
			if p, ok := j.ended(text); ok {
				found[id] = p
			}
		}
	}
	return found
}

// endOf returns the task whose end a line records, or 0 if it records something else.
func endOf(text []byte) uint64 {
	if !bytes.HasPrefix(text, begin(nil, evEnded)) {
		return 0
	}
	_, number, _ := bytes.Cut(text, []byte(`,"task":`))
	number, _, _ = bytes.Cut(number, []byte(","))
	id, _ := strconv.ParseUint(string(number), 10, 64)
	return id
}

// ended returns what the line about the end of a task says.
func (j *Journal) ended(text []byte) (p task.Past, ok bool) {
	r, err := parseLine(text)
	if err != nil || !isDone(r.Outcome) {
		return p, false
	}
	if p.Facts, p.Kept = r.Facts, !r.Streamed && !r.Dropped; p.Kept {
		p.Outputs = [2]task.Live{j.out.find(r.Stdout), j.out.find(r.Stderr)}
	}
	return p, true
}
