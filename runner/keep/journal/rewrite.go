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

	// maxCommandLine is how many bytes of the command line the first line shows.
	maxCommandLine = 4000
	// maxAge is how many resets a duration survives without being measured again.
	maxAge = 3
)

// Command describes what the tasks of a journal share.
type Command struct {
	Line string // the command line as far as it determines the tasks
	Dir  string // the working directory of the tasks

	// Programs are the files that the command runs: each a path, behind a blank and words that
	// differ if the file does. Tasks are known without them.
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

// began reports whether a journal with this head is of the command: in the same directory, by
// whatever links that was entered. Journals hold its physical name, older ones any.
func (c Command) began(head *record) bool {
	if dir, err := filepath.EvalSymlinks(string(head.Dir)); err == nil && dir == c.Dir {
		c.Dir = string(head.Dir)
	}
	return head.Sum == c.sum()
}

// firstLine returns the first line of a journal. queue is the ID of a queue, in which last
// is the highest number that was given; it is 0 for a run. outputs is the number of the file
// of outputs.
func firstLine(c Command, queue int64, last uint64, outputs int64, now time.Time) []byte {
	b := begin(nil, evJournal)
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

// directory is the one of a journal.
type directory struct {
	path  string
	queue bool
}

// open opens or creates a file. Nobody else can write to it, and only the user can read those
// of a queue, whatever their modes were.
func (d directory) open(name string, flags int) (*os.File, error) {
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

// startOver puts a journal without tasks in the place of the one that may be loaded, of which
// it keeps how long the tasks took.
func (j *Journal) startOver() error {
	var number, queue int64
	if j.past != nil {
		number = j.past.head.Outputs + 1
	}
	// Its name becomes durable with the journal's. It is not truncated yet: it may belong to
	// a journal that stays because this one cannot be completed.
	output, err := j.dir.open(outputName(number), os.O_CREATE)
	if err != nil {
		return err
	}
	output.Close()
	if j.cfg.Queue != nil {
		queue = 1 + rand.Int64N(math.MaxInt64)
	}
	d, err := j.draft(queue, 0, number)
	if err != nil {
		return err
	}
	defer d.discard()
	if j.past != nil {
		for e := range j.past.table.all {
			if !e.has(done) {
				e.age++
			}
			e.flags = 0
			if e.duration > 0 && e.age <= maxAge {
				d.known(e, nil, 0)
			}
		}
	}
	err = d.sync()
	if err == nil {
		err = j.install(d)
	}
	if err == nil {
		err = j.load()
	}
	return err
}

// copy writes what a line of l says that no later one does.
func (d *draft) copy(l *loaded, ln line) {
	ev, id := string(ln.event), ln.id
	if ev == evRun && l.run == ln.off || ev == evClosed && l.closed {
		d.write(ln.body)
	}
	if ev == evDoor && l.doorAt == ln.off {
		body := ln.body
		if l.lacks == 0 { // some of its tasks may be left out
			body = task.AppendText(begin(nil, evDoor), "door", l.door)
		}
		d.write(body)
	}
	e := l.table.find(id)
	if e == nil || l.forgets(e) {
		return
	}
	if ev == evAccepted && e.spec == ln.off && !l.gone(e) {
		d.write(ln.body)
	}
	if slices.Contains(l.tries[id].lines, ln.off) {
		d.write(ln.body)
	}
	if e.offset != ln.off {
		return
	}
	if e.has(begun) || e.duration > 0 && (!e.has(done) || e.outcome == task.Skipped) { // whose duration is that of an earlier attempt
		d.known(e, ln.body, l.tries[id].omitted)
	}
	switch {
	case e.has(done):
		d.write(d.move(endedBody(e, ln.body)))
	case ev == evStarted && l.running[id] == ln.off: // has to be the last line about the task
		d.write(ln.body)
	}
}

// endedBody returns the body of an evEnded line that also says whether the result
// has been shown and logged since.
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

// draft is the journal that is to replace this one.
type draft struct {
	file *os.File      // nil once it is in place
	w    *bufio.Writer // keeps its first error until it is flushed
	err  error         // the first other one

	from, to *outputs // which are copied unless they are the same; nil if there are none
}

// draft begins a draft. See firstLine for its parameters.
func (j *Journal) draft(queue int64, last uint64, outputs int64) (*draft, error) {
	f, err := j.dir.open(newName, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	d := &draft{file: f, w: bufio.NewWriterSize(f, 256<<10)}
	_, _ = d.w.Write(firstLine(j.cfg.Command, queue, last, outputs, time.Now()))
	return d, nil
}

// discard removes a draft that is not in place.
func (d *draft) discard() {
	if d.file != nil {
		d.file.Close()
		_ = os.Remove(d.file.Name())
	}
}

// follow copies the lines of a file that are behind an offset, and returns where they end.
func (d *draft) follow(file *os.File, from int64) (end int64) {
	var s scanned
	for ln := range s.lines(io.NewSectionReader(file, from, math.MaxInt64-from)) {
		d.write(d.move(ln.body))
	}
	d.err = cmp.Or(d.err, s.err)
	return from + s.end
}

// sync makes a draft durable, and before it the outputs.
func (d *draft) sync() error {
	if d.to != nil {
		d.err = cmp.Or(d.err, d.to.flush(), d.to.sync())
	}
	return cmp.Or(d.err, d.w.Flush(), d.file.Sync())
}

// install puts a draft in the place of the journal. At any moment one of the two is there
// and complete. If the draft may be gone after a power cut, nothing is recorded any more.
// The caller holds mu.
func (j *Journal) install(d *draft) error {
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
	if f, err := j.dir.open(journalName, 0); err == nil {
		file.Close()
		file = f // whose errors have the right name
	}
	_ = j.file.Close() // may be nil
	j.file, j.end, j.dirty = file, size, false
	return nil
}

// write seals and writes the body of a line.
func (d *draft) write(body []byte) {
	_, _ = d.w.Write(appendSum(append(d.w.AvailableBuffer(), body...), body))
}

// known writes what is known of a task besides its end: its duration and, if it has begun, its
// attempts, behind the lines of those that are kept. last is then the body of the last line about it.
func (d *draft) known(e *entry, last []byte, omitted int) {
	f := task.Facts{Duration: e.duration}
	if e.has(begun) {
		f.Attempt = int(e.attempts)
		rec, _ := parse(last)
		f.Command = rec.Command
	}
	b := task.AppendInt(f.Append(beginTask(nil, evKnown, e.id)), "age", int64(e.age))
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

// move copies the outputs of a body, if they are to be, and returns a body with their new
// extents. An output that is cut short keeps its length, so it is found damaged when it
// is opened.
func (d *draft) move(body []byte) []byte {
	for _, name := range streams {
		p, ok := parseExtent(field(body, name))
		if !ok || p.n == 0 || d.from == d.to {
			continue
		}
		moved, err := d.to.save(d.from.find(p))
		d.err = cmp.Or(d.err, err)
		moved.n, moved.sum = p.n, p.sum
		body = bytes.Replace(body, appendExtent(nil, name, p), appendExtent(nil, name, moved), 1)
	}
	return body
}
