package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/trust"
)

const (
	newName = "journal.new"

	// maxCommandLine limits the bytes of the command line in the first line.
	maxCommandLine = 4000
	// maxAge is how many resets a duration survives without being measured again.
	maxAge = 3
)

// Command describes the command of a run.
type Command struct {
	Line string // the part of the command line that determines the tasks
	Dir  string // the working directory of the tasks

	// Programs lists the files that the command runs. Each element is a fingerprint, a space and
	// the path. The fingerprint changes with the file. Programs do not affect the identities of
	// tasks.
	Programs []string
}

// sum returns a hash of the whole command.
func (c Command) sum() string {
	h := hasher{}
	h.text(c.Line)
	h.text(c.Dir)
	id := h.sum()
	return hex.EncodeToString(id[:])
}

// matches reports whether a journal with this first line belongs to c. Directories that differ only
// in symbolic links are the same: new journals record the resolved name, old ones any name.
func (c Command) matches(head *record) bool {
	if dir, err := filepath.EvalSymlinks(string(head.Dir)); err == nil && dir == c.Dir {
		c.Dir = string(head.Dir)
	}
	return head.Sum == c.sum()
}

// firstLine returns the first line of a journal. queue is the ID of a queue, or 0, and last is the
// highest task number used in it. outputs is the number of the file of outputs.
func firstLine(c Command, queue int64, last uint64, outputs int64, now time.Time) []byte {
	b := beginLine(nil, evJournal)
	b = task.AppendInt(b, "version", version)
	b = task.AppendTime(b, "created", now)
	b = task.AppendText(b, "command", task.Shorten(c.Line, maxCommandLine))
	b = task.AppendText(b, "sum", c.sum())
	b = task.AppendText(b, "dir", c.Dir)
	b = task.AppendInt(b, "outputs", outputs)
	if queue > 0 {
		b = task.AppendInt(b, "queue", queue)
		b = task.AppendInt(b, "last", int64(last))
	}
	return seal(b, 0)
}

// directory is the directory of a journal.
type directory struct {
	path  string
	queue bool
}

// openFile opens or creates a file that no other user can write. Files of a queue also become
// unreadable for other users, whatever their mode was.
func (d directory) openFile(name string, flags int) (*os.File, error) {
	mode := os.FileMode(0o644)
	if d.queue {
		mode = 0o600
	}
	f, err := trust.OpenOwn(filepath.Join(d.path, name), os.O_RDWR|flags, mode)
	if err == nil && d.queue {
		if err = f.Chmod(mode); err != nil {
			f.Close()
		}
	}
	return f, err
}

// startOver replaces the journal, if there is one, by an empty one that keeps only the durations of
// tasks.
func (j *Journal) startOver() error {
	var number, queue int64
	if j.contents != nil {
		number = j.contents.head.Outputs + 1
	}
	// Create it now, so that its name becomes durable together with the journal's. Do not truncate
	// it yet: it may belong to the old journal, which stays if the new one cannot be completed.
	output, err := j.dir.openFile(outputName(number), os.O_CREATE)
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
				d.writeKnown(e, nil, 0)
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
	ev, id := string(ln.event), ln.id
	if ev == evRun && l.runOffset == ln.off || ev == evClosed && l.closed {
		d.write(ln.body)
	}
	if ev == evDelivery && l.deliveryAt == ln.off {
		body := ln.body
		if l.missing == 0 { // some tasks of the delivery may be dropped
			body = task.AppendText(beginLine(nil, evDelivery), "door", l.delivery)
		}
		d.write(body)
	}
	e := l.table.find(id)
	if e == nil || l.expired(e) {
		return
	}
	if ev == evAccepted && e.spec == ln.off && !l.droppable(e) {
		d.write(ln.body)
	}
	if slices.Contains(l.prior[id].offsets, ln.off) {
		d.write(ln.body)
	}
	if e.offset != ln.off {
		return
	}
	if e.has(begun) || e.duration > 0 && (!e.has(done) || e.outcome == task.Skipped) { // a skipped task has the duration of an earlier attempt
		d.writeKnown(e, ln.body, l.prior[id].omitted)
	}
	switch {
	case e.has(done):
		d.write(d.moveOutputs(endedBody(e, ln.body)))
	case ev == evStarted && l.running[id] == ln.off: // must be the last line about the task
		d.write(ln.body)
	}
}

// endedBody returns the body of an evEnded line, updated with whether the result has been shown and
// logged.
func endedBody(e *entry, body []byte) []byte {
	for _, name := range [...]string{evReleased, evShown, evLogged} {
		body = bytes.Replace(body, task.AppendTrue(nil, name), nil, 1)
	}
	switch {
	case e.has(shown | logged):
		body = task.AppendTrue(body, evReleased)
	case e.has(shown):
		body = task.AppendTrue(body, evShown)
	case e.has(logged):
		body = task.AppendTrue(body, evLogged)
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
	f, err := j.dir.openFile(newName, os.O_CREATE|os.O_TRUNC)
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
	if err = cmp.Or(err, os.Rename(d.file.Name(), filepath.Join(j.dir.path, journalName))); err != nil {
		return err
	}
	file := d.file
	d.file = nil
	if err := j.dir.sync(); err != nil {
		j.fail(err)
		return err
	}
	if f, err := j.dir.openFile(journalName, 0); err == nil {
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

// writeKnown writes an evKnown line about a task: its duration and, if it has begun, its attempts.
// It goes behind the lines of kept attempts. last is the body of the last line about the task; it
// may be nil if the task has not begun. omitted is the number of attempts that were not kept.
func (d *draft) writeKnown(e *entry, last []byte, omitted int) {
	f := task.Facts{Duration: e.duration}
	if e.has(begun) {
		f.Attempt = int(e.attempts)
		rec, _ := parse(last)
		f.Command = rec.Command
	}
	b := task.AppendInt(f.Append(beginTaskLine(nil, evKnown, e.id)), "age", int64(e.age))
	if e.has(begun) {
		b = task.AppendInt(task.AppendInt(b, "failures", int64(e.failures)), "omitted", int64(omitted))
	}
	d.write(b)
}

// sync makes the names in the directory durable.
func (d directory) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return cmp.Or(f.Sync(), f.Close())
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
		moved, err := d.newOutputs.save(d.oldOutputs.outputAt(p))
		d.err = cmp.Or(d.err, err)
		moved.n, moved.sum = p.n, p.sum
		body = bytes.Replace(body, appendExtent(nil, name, p), appendExtent(nil, name, moved), 1)
	}
	return body
}
