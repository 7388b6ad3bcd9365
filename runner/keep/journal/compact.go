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

// loaded loads a journal of this run, of which it is known then what a compaction may forget.
func (j *Journal) loaded(f *os.File) (*loaded, error) {
	l := &loaded{}
	if q := j.cfg.Queue; q != nil {
		l.before = uint32(max(0, min(time.Now().Add(-q.Keep).Unix(), math.MaxUint32)))
		switch out := &j.cfg.Output; {
		case !out.MaybeClosed:
			l.settled = shown | logged
		case out.Logs:
			l.settled = logged
		}
	}
	return l, l.loadFile(f)
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
		l, err := j.loaded(j.file)
		if err == nil {
			err = j.compact(l)
			l.table.close()
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if c.ready = true; err != nil { // the journal stays as it is, until it has grown as much again
			c.needed, c.outputs = j.end, j.out.size()
		}
	})
}

// compact replaces the journal, as it was loaded, by one with only what is still needed, to
// which it copies the lines that are written meanwhile. If the outputs waste much space, those
// that are still needed are copied to a new file.
func (j *Journal) compact(l *loaded) (err error) {
	out := j.out
	if j.wasteful(out.size(), l.outputs) {
		if out, err = j.dir.outputs(out.number+1, 0); err != nil {
			return err
		}
	}
	if err = j.rewrite(l, out); err != nil && out != j.out {
		_ = out.file.Close()
	}
	j.dir.clear(j.out)
	return err
}

// rewrite writes what is needed of l to a new journal and puts that in the place of the old one.
// Most is copied and made durable before that, so that little remains to be done while nothing
// can be recorded.
func (j *Journal) rewrite(l *loaded, out *outputs) error {
	d, err := j.draft(l.head.Queue, l.last, out.number)
	if err != nil {
		return err
	}
	defer d.discard()
	d.from, d.to = j.out, out
	var s scanned
	for ln := range s.lines(io.NewSectionReader(l.file, 0, l.scanned.end)) {
		if d.copy(l, ln); d.err != nil || j.compactor.stopping.Load() {
			return cmp.Or(d.err, fs.ErrClosed)
		}
	}
	end := d.follow(j.file, l.scanned.end)
	if err := cmp.Or(s.err, d.sync()); err != nil {
		return err
	}
	j.reading.Lock()
	defer j.reading.Unlock()
	j.saving.Lock()
	defer j.saving.Unlock()
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
	d.follow(j.file, end)
	if err := d.sync(); err != nil {
		return err
	}
	err = j.install(d)
	if d.file == nil { // it is the journal
		j.out = out
		j.compactor.needed, j.compactor.outputs = j.end, l.outputs
	}
	return err
}
