package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const (
	newName = "journal.new"

	// maxAge is how many resets a duration survives without being measured again.
	maxAge = 3
)

// startOver replaces the journal, if there is one, by an empty one that keeps only the durations of
// tasks.
func (j *Journal) startOver() error {
	var number, queue int64
	if j.contents != nil {
		number = j.contents.head.Outputs + 1
	}
	// Create it now, so that its name becomes durable together with the journal's. Do not truncate
	// it yet: it may belong to the old journal, which stays if the new one cannot be completed.
	output, err := j.openFile(outputName(number), os.O_CREATE)
	if err != nil {
		return err
	}
	output.Close()
	if j.cfg.Queue != nil {
		queue = 1 + rand.Int64N(math.MaxInt64)
	}
	d, err := j.newDraft(queue, 0, number)
	if err != nil {
		return err
	}
	defer d.discard()
	if j.contents != nil {
		for e := range j.contents.table.all {
			if !e.has(done) {
				e.age++
			}
			e.flags = 0
			if e.duration > 0 && e.age <= maxAge {
				d.writeKnown(e)
			}
		}
	}
	err = d.sync()
	if err == nil {
		err = j.installLocked(d)
	}
	if err == nil {
		err = j.load()
	}
	return err
}

// copyLine writes the facts of ln that no later line of l overrides.
func (d *draft) copyLine(l *contents, ln line) {
	ev, e, prior := string(ln.event), l.table.find(ln.id), l.prior[ln.id]
	remembered := e != nil && !l.expired(e)
	last := remembered && e.offset == ln.off
	if last && e.duration > 0 && (!e.has(done) || e.outcome == task.Skipped) { // a skipped task has the duration of an earlier attempt
		d.writeKnown(e)
	}
	switch {
	case last && e.has(done):
		body := setTrue(setTrue(ln.body, evShown, e.has(shown)), evLogged, e.has(logged))
		d.write(d.moveOutputs(body))
	case slices.Contains(prior.offsets, ln.off):
		d.write(prior.appendCounts(ln))
	case ev == evRun && l.runOffset == ln.off, ev == evClosed && l.closed != nil,
		remembered && ev == evAccepted && e.spec == ln.off && !l.droppable(e), last && ev != evKnown:
		d.write(d.moveOutputs(setTrue(ln.body, deliveredName, false))) // see Output.All: a task that is not done may have outputs
	}
}

// setTrue appends the named member to body, or removes it.
func setTrue(body []byte, name string, set bool) []byte {
	member := task.AppendTrue(nil, name)
	if body = bytes.Replace(body, member, nil, 1); set {
		body = append(body, member...)
	}
	return body
}

// draft is a new journal that will replace the current one.
type draft struct {
	file *os.File      // nil after installLocked
	w    *bufio.Writer // keeps its first error until Flush
	err  error         // the first other error

	oldOutputs, newOutputs *outputs // outputs are copied if these differ; nil if there are none
}

// newDraft creates a draft with a first line; see firstLine for the parameters.
func (j *Journal) newDraft(queue int64, last uint64, outputs int64) (*draft, error) {
	f, err := j.openFile(newName, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	d := &draft{file: f, w: bufio.NewWriterSize(f, 256<<10)}
	_, _ = d.w.Write(firstLine(j.cfg.Command, queue, last, outputs, time.Now()))
	return d, nil
}

// discard removes a draft that was not installed.
func (d *draft) discard() {
	if d.file != nil {
		d.file.Close()
		_ = os.Remove(d.file.Name())
	}
}

// copyFrom copies the lines of file from an offset on, and returns the offset after the last one.
func (d *draft) copyFrom(file *os.File, from int64) (end int64) {
	var s scanner
	for ln := range s.lines(io.NewSectionReader(file, from, math.MaxInt64-from)) {
		d.write(d.moveOutputs(ln.body))
	}
	d.err = cmp.Or(d.err, s.err)
	return from + s.end
}

// sync makes the draft durable, and its outputs before it.
func (d *draft) sync() error {
	if d.newOutputs != nil {
		d.err = cmp.Or(d.err, d.newOutputs.flush(), d.newOutputs.sync())
	}
	return cmp.Or(d.err, d.w.Flush(), d.file.Sync())
}

// installLocked replaces the journal by the draft. At any moment, one of the two is in place and
// complete. If a power cut could undo the replacement, recording ends with an error. The caller
// must hold mu, except in Open.
func (j *Journal) installLocked(d *draft) error {
	size, err := d.file.Seek(0, io.SeekEnd)
	if err = cmp.Or(err, os.Rename(d.file.Name(), filepath.Join(j.cfg.Dir, journalName))); err != nil {
		return err
	}
	file := d.file
	d.file = nil
	if err := kernel.SyncDir(j.cfg.Dir); err != nil {
		j.fail(err)
		return err
	}
	if f, err := j.openFile(journalName, 0); err == nil {
		file.Close()
		file = f // so that errors name the right file
	}
	_ = j.file.Close() // may be nil
	j.file, j.end, j.dirty = file, size, false
	return nil
}

// write seals and writes the body of a line.
func (d *draft) write(body []byte) {
	_, _ = d.w.Write(appendSum(append(d.w.AvailableBuffer(), body...), body))
}

// writeKnown writes an evKnown line about a task.
func (d *draft) writeKnown(e *entry) {
	f := task.Facts{Duration: e.duration}
	d.write(task.AppendInt(f.Append(beginTaskLine(nil, evKnown, e.id)), "age", int64(e.age)))
}

// moveOutputs copies the outputs of a body to newOutputs, if that is another file, and returns the
// body with the new extents. A truncated output keeps its length, so it is found to be damaged when
// it is used.
func (d *draft) moveOutputs(body []byte) []byte {
	for _, name := range streams {
		p, ok := parseExtent(field(body, name))
		if !ok || p.n == 0 || d.oldOutputs == d.newOutputs {
			continue
		}
		moved, err := d.newOutputs.save(p.In(d.oldOutputs.file))
		d.err = cmp.Or(d.err, err)
		moved.n, moved.sum = p.n, p.sum
		body = bytes.Replace(body, appendExtent(nil, name, p), appendExtent(nil, name, moved), 1)
	}
	return body
}
