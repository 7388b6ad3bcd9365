package journal

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// append writes whole lines behind the last. After an error nothing is appended
// any more, and what was written before stays good.
func (j *Journal) append(lines []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed && j.fault == nil {
		j.fault = fs.ErrClosed
	}
	if j.fault != nil {
		return j.fault
	}
	var err error
	if end := j.end + int64(len(lines)); end+noteRoom > j.room {
		j.room = end + 2*noteRoom
		err = makeRoom(j.file, j.end, j.room-j.end)
	}
	if err == nil {
		err = j.write(lines)
	}
	if err != nil {
		j.fault = &Fault{err}
	}
	return j.fault
}

// noteRoom is what is left for notes when nothing can be appended any more: some
// hundred results may have been recorded just before, and not been shown yet.
const noteRoom = 16 << 10

// note is append for what was shown. It is tried after an error, too: there is
// room set aside for it.
func (j *Journal) note(line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.write(line)
}

func (j *Journal) write(lines []byte) error {
	if _, err := j.file.WriteAt(lines, j.end); err != nil {
		_ = j.file.Truncate(j.end)
		return err
	}
	j.end += int64(len(lines))
	j.dirty = true
	return nil
}

// fail notes that something could not be recorded.
func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fault == nil {
		j.fault = &Fault{err}
	}
}

func (j *Journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fault
}

// syncEvery is what has to lie between two syncs: on a fast disk one sync a task
// would take processor time from the tasks, and nobody sees so short a delay.
const syncEvery = 5 * time.Millisecond

// sync makes all that was written so far durable, outputs before the lines that
// speak of them.
func (j *Journal) sync() error {
	j.mu.Lock()
	dirty, fault := j.dirty, j.fault
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return fault
	}
	time.Sleep(time.Until(j.synced.Add(syncEvery)))
	err := j.out.sync()
	if err == nil {
		err = j.file.Sync()
	}
	j.synced = time.Now()
	if err != nil {
		j.fail(err)
	}
	return j.failure()
}

// Close closes the files and gives the lock back. It may be called again.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	if j.file != nil {
		_ = j.file.Truncate(j.end) // gives back the room for notes
	}
	for _, f := range []*os.File{j.file, j.out.file, j.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
	return nil
}

// Fault is why nothing can be recorded any more.
type Fault struct{ err error }

// Error says what could not be written.
func (f *Fault) Error() string {
	return fmt.Sprintf("record the run: %v; what ended after that runs again in the next run", f.err)
}

// Unwrap is the system's error.
func (f *Fault) Unwrap() error { return f.err }
