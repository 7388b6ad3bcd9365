package journal

import (
	"cmp"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// compactor is the state of compactions. There may be one when the journal is opened and, in a
// queue, more during the run.
type compactor struct {
	running  sync.WaitGroup // compactions in the background
	stopping atomic.Bool    // compactions must stop, and none may begin

	// guarded by Journal.mu

	ready   bool  // a compaction may begin: none is running
	needed  int64 // bytes of lines after the last compaction, or that one at Open would have left
	outputs int64 // the same for outputs
}

// loadContents loads the first size bytes of the journal, and sets which tasks a compaction may drop in this run.
func (j *Journal) loadContents(size int64) (*contents, error) {
	l := &contents{settledFlags: j.cfg.Output.settledFlags()}
	if q := j.cfg.Queue; q != nil {
		l.expireBefore = uint32(max(0, min(time.Now().Add(-q.Keep).Unix(), math.MaxUint32)))
	}
	return l, l.load(j.file, size, j.file.Name())
}

func (j *Journal) wasteful(size, needed int64) bool {
	return size > 2*needed+j.cfg.Slack && !j.cfg.Output.All
}

// wastesSpaceLocked reports whether the lines or the outputs are much longer than after the last
// compaction. The caller must hold mu, except in Open.
func (j *Journal) wastesSpaceLocked() bool {
	return j.wasteful(j.end, j.compactor.needed) || j.wasteful(j.out.size(), j.compactor.outputs)
}

// compactIfWasteful starts a compaction in the background if much space is wasted. Close stops it
// and waits for it.
func (j *Journal) compactIfWasteful() {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &j.compactor
	if !c.ready || j.failure() != nil || c.stopping.Load() || !j.wastesSpaceLocked() {
		return
	}
	c.ready = false
	size := j.end // not in the middle of a delivery
	c.running.Go(func() {
		l, err := j.loadContents(size)
		if err == nil {
			err = j.compact(l)
			l.table.close()
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if c.ready = true; err != nil { // try again when the files have doubled
			c.needed, c.outputs = j.end, j.out.size()
		}
	})
}

// compact replaces the journal by one that has only the needed lines of l and the lines written in
// the meantime. If the outputs waste much space, it also copies the needed outputs to a new file.
func (j *Journal) compact(l *contents) (err error) {
	out := j.out
	if j.wasteful(out.size(), l.outputs) {
		if out, err = j.openOutputs(out.number+1, 0); err != nil {
			return err
		}
	}
	if err = j.rewrite(l, out); err != nil && out != j.out {
		_ = out.file.Close()
	}
	j.removeOtherOutputs(j.out)
	return err
}

// rewrite writes the needed lines of l to a new journal and then replaces the old one. Most of the
// work is done, and made durable, before it blocks the recording.
func (j *Journal) rewrite(l *contents, out *outputs) error {
	d, err := j.newDraft(l.head.Queue, l.last, out.number)
	if err != nil {
		return err
	}
	defer d.discard()
	d.oldOutputs, d.newOutputs = j.out, out
	for _, id := range l.deliveries {
		d.write(appendDelivery(nil, id, 0))
	}
	var s scanner
	for ln := range s.lines(io.NewSectionReader(l.file, 0, l.scan.end)) {
		if d.copyLine(l, ln); d.err != nil || j.compactor.stopping.Load() {
			return cmp.Or(d.err, fs.ErrClosed)
		}
	}
	end := d.copyFrom(j.file, l.scan.end)
	if err := cmp.Or(s.err, d.sync()); err != nil {
		return err
	}
	j.readMu.Lock()
	defer j.readMu.Unlock()
	j.saveMu.Lock()
	defer j.saveMu.Unlock()
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.flushLocked(); err != nil {
		return err
	}
	if j.compactor.stopping.Load() {
		return fs.ErrClosed
	}
	d.copyFrom(j.file, end)
	if err := d.sync(); err != nil {
		return err
	}
	err = j.installLocked(d)
	if d.file == nil { // the draft is the journal now
		j.out = out
		j.compactor.needed, j.compactor.outputs = j.end, l.outputs
	}
	return err
}
