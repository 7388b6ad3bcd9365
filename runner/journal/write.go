package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// noteRoom is what is left for notes when nothing can be appended any more:
	// some hundred results may have been recorded just before, and not been shown
	// yet.
	noteRoom = 16 << 10
	// ahead is how much room the disk is asked for at a time, where it has that.
	ahead = 1 << 20
	// mostLater is how many bytes of lines may wait for others.
	mostLater = 64 << 10
	// usualPause is the least time between two syncs: each takes processor time
	// from the tasks, and nobody sees so short a delay.
	usualPause = 20 * time.Millisecond
)

// append writes whole lines behind the last, and before them those that were to
// be written later. After an error nothing is appended any more, and what was
// written before stays good.
func (j *Journal) append(lines []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = append(j.waiting, lines...)
	return j.flush()
}

// later has whole lines written with the next that are appended, with Idle, or when
// Commit makes them durable: a task that ends and one that starts then cost one
// write.
func (j *Journal) later(lines []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting = append(j.waiting, lines...)
	if len(j.waiting) > mostLater {
		_ = j.flush()
	}
}

// flush writes the lines that wait. It is called with mu held.
func (j *Journal) flush() error {
	lines := j.waiting
	j.waiting = j.waiting[:0]
	if j.closed && j.fault == nil {
		j.fault = fs.ErrClosed
	}
	if j.fault != nil || len(lines) == 0 {
		return j.fault
	}
	err := j.makeRoom(int64(len(lines)))
	if err == nil {
		err = j.write(lines)
	}
	if err != nil {
		j.fault = &Fault{err}
	}
	return j.fault
}

// makeRoom has the disk set bytes aside for n bytes and the notes behind them,
// without a change of the file's length. It is an error only where there are not
// as many; a file system that sets nothing aside is none.
func (j *Journal) makeRoom(n int64) error {
	end := j.end + n + noteRoom
	if end <= j.room {
		return nil
	}
	var err error
	for _, j.room = range []int64{end + ahead, end} {
		err = unix.Fallocate(int(j.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, j.end, j.room-j.end)
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			return nil
		}
	}
	return &os.PathError{Op: "write", Path: j.file.Name(), Err: err}
}

// note appends lines about what was shown. It is tried after an error, too: there
// is room set aside for it.
func (j *Journal) note(lines []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.flush()
	if err := j.write(lines); err != nil && j.fault == nil {
		j.fault = &Fault{err}
	}
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

// sync makes all that was recorded so far durable, outputs before the lines that
// speak of them.
func (j *Journal) sync() error {
	j.mu.Lock()
	_ = j.flush()
	dirty, fault := j.dirty, j.fault
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return fault
	}
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
	if j.file != nil {
		_ = j.flush()
		_ = j.file.Truncate(j.end) // gives back the room for notes
	}
	j.closed = true
	if j.past != nil {
		j.past.table.close()
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
