package journal

import (
	"cmp"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// compactor is the state of compactions: one when the journal is opened and, of a queue,
// others while the run goes on.
type compactor struct {
	running  sync.WaitGroup // compactions in the background
	stopping atomic.Bool    // a compaction is to be given up, and none begins

	// under Journal.mu

	ready   bool  // a compaction may begin: none is under way
	needed  int64 // bytes of lines after the last compaction, or that it would have left
	outputs int64 // the same of outputs
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

func (j *Journal) wasteful(size, needed int64) bool { return size > 2*needed+j.cfg.Slack }

// wastes reports whether the lines or the outputs have become much longer than they
// were after the last compaction. The caller holds mu, or is Open.
func (j *Journal) wastes() bool {
	return j.wasteful(j.end, j.compactor.needed) || j.wasteful(j.out.size(), j.compactor.outputs)
}

// compactIfWasteful starts a compaction in the background if much space is wasted.
// Close waits for it.
func (j *Journal) compactIfWasteful() {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.compactor
	if !c.ready || j.failure() != nil || c.stopping.Load() || !j.wastes() {
		return
	}
	c.ready = false
	c.running.Go(func() {
		_ = j.compact(nil, nil) // if it fails, the journal stays as it is, until it has grown as much again
		j.mu.Lock()
		defer j.mu.Unlock()
		c.ready = true
	})
}

// compact replaces the journal by one with only what is still needed, to which it copies
// the lines that are written meanwhile. If the outputs waste much space, those that are
// still needed are copied to a new file. l is the journal as it is if it is loaded, or nil.
// more are lines to add, or nil.
func (j *Journal) compact(l *loaded, more []byte) error {
	old, end, from, err := j.divide()
	defer j.noteSizes(from)
	if err != nil {
		return err
	}
	if l == nil {
		if l, err = load(old, end, old.Name(), &j.compactor.stopping); err != nil {
			return err
		}
		defer l.table.close()
		j.keep(l)
	}
	if !j.wasteful(j.out.size(), l.outputs) { // there are more of them, but they are needed
		from = 0
	}
	file, err := j.draft(l.head.Queue, l.last, func(r *rewriter) error {
		r.out, r.from = &j.out, from
		s := scanned{stop: &j.compactor.stopping}
		for ln := range s.lines(io.NewSectionReader(l.file, 0, l.scanned.end)) {
			if r.copy(l, ln); r.err != nil {
				return r.err
			}
		}
		_, _ = r.w.Write(more)
		return cmp.Or(s.err, j.out.syncFiles()) // while nobody has to wait for that
	})
	if err != nil {
		return err
	}
	if err := j.replace(file, end); err != nil {
		discard(file)
		return err
	}
	j.out.drop(from)
	return nil
}

// divide returns the file of the journal and its length. If outputs are to be copied,
// from is the offset before which they are, otherwise 0. An output that is written from
// now on has its line after end, and is after from.
func (j *Journal) divide() (file *os.File, end, from int64, err error) {
	j.saving.Lock()
	defer j.saving.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wasteful(j.out.size(), j.compactor.outputs) {
		from, err = j.out.rotate()
	}
	_ = j.flush()
	return j.file, j.end, from, err
}

// noteSizes notes how long the files are after a compaction, which may have failed.
func (j *Journal) noteSizes(from int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.compactor.needed = j.end
	if from > 0 {
		j.compactor.outputs = j.out.size()
	}
}

// replace copies the lines from offset end on to a new journal and puts it in the place
// of the old one. Most are copied and made durable before, so that little remains to be done
// while nothing can be recorded. A sync must not be of the old file meanwhile.
func (j *Journal) replace(file *os.File, end int64) error {
	if err := j.sync(); err != nil {
		return err
	}
	j.mu.Lock()
	old, to := j.file, j.end
	j.mu.Unlock()
	_, err := io.Copy(file, io.NewSectionReader(old, end, to-end))
	if err = cmp.Or(err, file.Sync()); err != nil {
		return err
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.flush(); err != nil {
		return err
	}
	if j.compactor.stopping.Load() {
		return fs.ErrClosed
	}
	_, err = io.Copy(file, io.NewSectionReader(old, to, j.end-to))
	if err = cmp.Or(err, j.syncTo(file)); err != nil {
		return err
	}
	return j.install(file)
}
