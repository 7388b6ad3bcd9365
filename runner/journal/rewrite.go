package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"crew/runner/task"
	"crew/runner/trust"
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
// is the highest number that was given; it is empty for a run.
func firstLine(c Command, queue string, last uint64, now time.Time) []byte {
	b := begin(nil, evJournal)
	b = task.AppendInt(b, "version", version)
	b = task.AppendTime(b, "created", now)
	b = task.AppendText(b, "command", task.Shorten(c.Line, maxCommandLine))
	b = task.AppendText(b, "sum", c.sum())
	b = task.AppendText(b, "dir", c.Dir)
	if queue != "" {
		b = task.AppendText(b, "queue", queue)
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
	path := filepath.Join(d.path, name)
	if !d.queue {
		return trust.OpenOwn(path, os.O_RDWR|flags, 0o644)
	}
	f, err := trust.OpenOwn(path, os.O_RDWR|flags, 0o600)
	if err == nil {
		if err = f.Chmod(0o600); err != nil {
			f.Close()
		}
	}
	return f, err
}

// startOver puts a journal without tasks in the place of the one that may be loaded, of which
// it keeps how long the tasks took.
func (j *Journal) startOver() error {
	// Its name becomes durable with the journal's. It is not truncated yet: it may belong to
	// a journal that stays because this one cannot be completed.
	output, err := j.dir.open(outputName(0), os.O_CREATE)
	if err != nil {
		return err
	}
	output.Close()
	queue := ""
	if j.cfg.Queue != nil {
		queue = fmt.Sprintf("%016x", rand.Uint64())
	}
	file, err := j.draft(queue, 0, func(r *rewriter) error {
		if j.past == nil {
			return nil
		}
		for e := range j.past.table.all {
			if !e.has(done) {
				e.age++
			}
			if e.duration > 0 && e.age <= maxAge {
				r.known(e, nil, 0)
			}
		}
		return nil
	})
	if err == nil {
		err = j.install(file)
	}
	if err == nil {
		err = j.load()
	}
	if err != nil {
		return err
	}
	return j.out.open(j.past.outFirst, j.past.outEnd)
}

// copy writes what a line of l says that no later one does.
func (r *rewriter) copy(l *loaded, ln line) {
	ev := event(ln.body)
	if ev == evRun && l.run == ln.off || ev == evClosed && l.closed {
		r.write(ln.body)
	}
	id, ok := ln.id, ln.task
	if !ok {
		return
	}
	e := l.table.find(id)
	if e == nil || l.forgets(e) {
		return
	}
	if ev == evAccepted && e.spec == ln.off && !l.gone(e) {
		r.write(ln.body)
	}
	if slices.Contains(l.tries[id].lines, ln.off) {
		r.write(ln.body)
	}
	if e.offset != ln.off {
		return
	}
	interrupted := ev == evStarted && l.running[id] == ln.off
	switch {
	case e.has(done) && ev == evEnded:
		if e.outcome == task.Skipped && e.duration > 0 { // it is that of an earlier attempt
			r.known(e, nil, 0)
		}
		r.write(r.move(endedBody(e, ln.body)))
	case e.has(done):
	case e.has(begun) && (!interrupted || e.attempts > 0 || e.duration > 0):
		r.known(e, ln.body, l.tries[id].omitted)
	case !e.has(begun) && e.duration > 0:
		r.known(e, nil, 0)
	}
	if interrupted { // the start has to be the last line about the task
		r.write(ln.body)
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

// draft writes the journal that is to replace this one, and makes it durable. See
// firstLine for queue and last.
func (j *Journal) draft(queue string, last uint64, write func(*rewriter) error) (*os.File, error) {
	f, err := j.dir.open(newName, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	r := &rewriter{w: bufio.NewWriterSize(f, 256<<10)}
	_, _ = r.w.Write(firstLine(j.cfg.Command, queue, last, time.Now()))
	err = write(r)
	if err = cmp.Or(err, r.err, r.w.Flush(), f.Sync()); err != nil {
		discard(f)
		return nil, err
	}
	return f, nil
}

// discard removes a draft.
func discard(draft *os.File) {
	draft.Close()
	_ = os.Remove(draft.Name())
}

// install puts a draft in the place of the journal. At any moment one of the two is there
// and complete. If the draft may be gone after a power cut, nothing is recorded any more.
// The caller holds mu.
func (j *Journal) install(draft *os.File) error {
	size, err := draft.Seek(0, io.SeekEnd)
	if err = cmp.Or(err, os.Rename(draft.Name(), filepath.Join(j.dir.path, journalName))); err != nil {
		return err
	}
	if err := j.dir.sync(); err != nil {
		j.fail(err)
		return err
	}
	if f, err := j.dir.open(journalName, 0); err == nil {
		draft.Close()
		draft = f // whose errors have the right name
	}
	_ = j.file.Close() // may be nil
	j.file, j.end, j.dirty = draft, size, false
	return nil
}

// rewriter writes the lines of a new journal.
type rewriter struct {
	w   *bufio.Writer // keeps its first error until it is flushed
	buf []byte
	err error // the first other one

	out  *outputs // those before an offset are copied to its end
	from int64
}

// write seals and writes the body of a line.
func (r *rewriter) write(body []byte) {
	r.buf = appendSum(append(r.buf[:0], body...), body)
	_, _ = r.w.Write(r.buf)
}

// known writes what is known of a task that is not done: its duration and, if it has
// begun, its attempts, behind the lines of those that are kept. last is then the body of
// the last line about it, otherwise nil.
func (r *rewriter) known(e *entry, last []byte, omitted int) {
	f := task.Facts{Duration: e.duration}
	if last != nil {
		f.Attempt = int(e.attempts)
		if rec, err := parse(last); err == nil {
			f.Command = rec.Command
		}
	}
	b := task.AppendInt(f.Append(beginTask(nil, evKnown, e.id)), "age", int64(e.age))
	if last != nil {
		b = task.AppendInt(task.AppendInt(b, "failures", int64(e.failures)), "omitted", int64(omitted))
	}
	r.write(b)
}

// sync makes the names in the directory durable.
func (d directory) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return cmp.Or(f.Sync(), f.Close())
}

// move copies the outputs of a body that are in the way and returns a body with their new
// extents. An output that is cut short keeps its length, so it is found damaged when it
// is opened.
func (r *rewriter) move(body []byte) []byte {
	for _, name := range streams {
		p, ok := parseExtent(field(body, name))
		if !ok || p.n == 0 || p.off >= r.from {
			continue
		}
		moved, err := r.out.save(r.out.find(p))
		r.err = cmp.Or(r.err, err)
		moved.n, moved.sum = p.n, p.sum
		body = bytes.Replace(body, appendExtent(nil, name, p), appendExtent(nil, name, moved), 1)
	}
	return body
}
