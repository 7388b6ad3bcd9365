package journal

import (
	"cmp"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// compactor compacts the journal of a queue while the run goes on.
type compactor struct {
	compaction sync.WaitGroup
	stopping   atomic.Bool  // a compaction is to be given up, and none begins
	freed      atomic.Int64 // outputs before this offset are gone

	// under Journal.mu

	ready   bool  // a compaction may begin: none is under way
	needed  int64 // bytes of the journal after the last compaction
	outputs int64 // bytes of outputs after the last compaction
}

// keep sets which tasks of l a compaction may forget, and corrects how much of the
// files it would keep.
func (j *Journal) keep(l *loaded) {
	q := j.cfg.Queue
	if q == nil {
		return
	}
	l.before = uint32(max(0, min(time.Now().Add(-q.Keep).Unix(), math.MaxUint32)))
	switch out := &j.cfg.Output; {
	case !out.Null:
		l.settled = shown | logged
	case out.Logs:
		l.settled = logged
	}
	all, old := int64(l.table.n), int64(0)
	for e := range l.table.all {
		if l.forgets(e) {
			old++
		}
	}
	if old > 0 {
		l.needed -= l.needed / all * old
		l.outputs -= l.outputs / all * old
	}
}

// startCompacting lets compactions begin.
func (j *Journal) startCompacting() {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := &j.queue
	q.ready, q.needed, q.outputs = true, j.past.needed, j.past.outputs
}

// compactIfWasteful starts a compaction in the background if a file has become much
// longer than it was after the last one. Close waits for it.
func (j *Journal) compactIfWasteful() {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := &j.queue
	if !q.ready || j.fault != nil || q.stopping.Load() ||
		!j.wasteful(j.end, q.needed) && !j.wasteful(j.out.end.Load()-q.freed.Load(), q.outputs) {
		return
	}
	q.ready = false
	q.compaction.Go(func() {
		needed, outputs, err := j.compactLive()
		j.mu.Lock()
		defer j.mu.Unlock()
		if err != nil { // the journal stays as it is, until it has grown as much again
			needed, outputs = j.end, j.out.end.Load()-q.freed.Load()
		}
		q.ready, q.needed, q.outputs = true, needed, outputs
	})
}

// compactLive replaces the journal by one with only what is still needed, to which
// it copies the lines that are written meanwhile. It returns the new length of the
// journal, and of the outputs that are still needed.
func (j *Journal) compactLive() (needed, outputs int64, err error) {
	// An output that is written from now on has its line after end.
	j.saving.Lock()
	outEnd := j.out.end.Load()
	j.mu.Lock()
	_ = j.flush()
	old, end := j.file, j.end
	j.queue.envs = map[identity]bool{} // later lines refer to none before end
	j.mu.Unlock()
	j.saving.Unlock()

	l, err := load(&stoppable{old, &j.queue.stopping}, end, old.Name())
	if err != nil {
		return 0, 0, err
	}
	defer l.table.close()
	j.keep(l)
	var envs map[identity]bool
	lowest := outEnd
	h := heading{j.cfg.Command, l.head.Output, l.head.Queue, l.last}
	file, err := draft(j.cfg.Dir, h, func(r *rewriter) error {
		err := l.compact(r, &mover{})
		envs, lowest = r.envs, min(r.lowest, lowest)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if end, err = j.catchUp(file, end); err == nil {
		needed, err = j.replace(file, end, envs)
	}
	if err != nil {
		file.Close()
		_ = os.Remove(filepath.Join(j.cfg.Dir, newName))
		return 0, 0, err
	}
	j.freeOutputs(lowest)
	return needed, outEnd - lowest, nil
}

// catchUp copies the lines from offset end on to a new journal and makes them
// durable there, so that little remains to be done while nothing can be recorded. It
// returns the offset up to which it has copied.
func (j *Journal) catchUp(file *os.File, end int64) (int64, error) {
	if err := j.sync(); err != nil {
		return 0, err
	}
	j.mu.Lock()
	old, to := j.file, j.end
	j.mu.Unlock()
	_, err := io.Copy(file, io.NewSectionReader(old, end, to-end))
	return to, cmp.Or(err, file.Sync())
}

// replace copies the lines from offset end on to a new journal, puts it in the place
// of the old one and returns its length. Additions wait meanwhile: their sync must
// not be of the old file.
func (j *Journal) replace(file *os.File, end int64, envs map[identity]bool) (int64, error) {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.flush(); err != nil {
		return 0, err
	}
	if j.queue.stopping.Load() {
		return 0, fs.ErrClosed
	}
	_, err := io.Copy(file, io.NewSectionReader(j.file, end, j.end-end))
	if err == nil {
		err = j.syncTo(file)
	}
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(j.cfg.Dir, journalName))
	}
	if err != nil {
		return 0, err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err == nil {
		err = syncDir(j.cfg.Dir)
	}
	if err != nil { // what was accepted is not certain to have a name
		j.setFault(err)
		return 0, err
	}
	if f, err := openFile(filepath.Join(j.cfg.Dir, journalName), 0, true); err == nil {
		file.Close()
		file = f // whose errors have the right name
	}
	j.file.Close()
	j.file, j.end, j.allocated, j.dirty = file, size, 0, false
	for sum := range envs {
		j.queue.envs[sum] = true
	}
	return size, nil
}

// freeOutputs frees the disk space of the outputs before an offset. The later ones
// keep their offsets, so they can be written and read meanwhile. Where the file system
// cannot punch holes, the next start frees the space.
func (j *Journal) freeOutputs(to int64) {
	const block = 64 << 10 // a multiple of that of any file system
	from := j.queue.freed.Swap(to)
	if to > from {
		from -= from % block // only whole blocks are freed
		_ = unix.Fallocate(int(j.out.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	}
}

// stoppable is a reader that can be stopped.
type stoppable struct {
	io.ReaderAt
	stop *atomic.Bool
}

// ReadAt is that of the reader unless it was stopped.
func (s *stoppable) ReadAt(p []byte, off int64) (int, error) {
	if s.stop.Load() {
		return 0, fs.ErrClosed
	}
	return s.ReaderAt.ReadAt(p, off)
}
