package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"crew/runner/task"
	"crew/runner/trust"
)

const (
	newName      = "journal.new"
	outputPrefix = "output."

	// maxCommandLine is how many bytes of the command line the first line shows.
	maxCommandLine = 4000
	// maxAge is how many resets a duration survives without being measured again.
	maxAge = 3
)

// Command is what the tasks of a journal have in common.
type Command struct {
	Line string // the command line as far as it determines the tasks
	Dir  string // the working directory of the tasks
}

// sum returns a hash of the whole command.
func (c Command) sum() string {
	h := hasher{}
	h.text(c.Line)
	h.text(c.Dir)
	id := h.sum()
	return hex.EncodeToString(id[:])
}

// heading is what the first line of a journal says.
type heading struct {
	command Command
	output  string // name of the file of outputs
	queue   string // ID of the queue; empty for a run
	last    uint64 // the highest number that was given in the queue
}

func (h *heading) append(b []byte, now time.Time) []byte {
	from := len(b)
	b = begin(b, evJournal)
	b = task.AppendInt(b, "version", version)
	b = task.AppendTime(b, "created", now)
	b = task.AppendText(b, "command", task.Shorten(h.command.Line, maxCommandLine))
	b = task.AppendText(b, "sum", h.command.sum())
	b = task.AppendText(b, "dir", h.command.Dir)
	b = task.AppendText(b, "output", h.output)
	if h.queue != "" {
		b = task.AppendText(b, "queue", h.queue)
		b = task.AppendInt(b, "last", int64(h.last))
	}
	return seal(b, from)
}

// openFile opens or creates a file of a journal. Nobody else can write to it, and only
// the user can read those of a queue, whatever their modes were.
func openFile(path string, flags int, queue bool) (*os.File, error) {
	if !queue {
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

// createJournal writes a journal without tasks, and creates its file of outputs. Of
// the old journal, if not nil, it keeps how long the tasks took.
func createJournal(dir string, h heading, old *loaded) error {
	h.output = outputPrefix + "1"
	if old != nil {
		h.output = nextOutput(old.head.Output)
	}
	// The file must not be truncated yet: it may belong to a journal that cannot be
	// read, and that stays if this one cannot be completed.
	f, err := openFile(filepath.Join(dir, h.output), os.O_CREATE, h.queue != "")
	if err != nil {
		return err
	}
	f.Close()
	return rewrite(dir, h, func(r *rewriter) error {
		if old == nil {
			return nil
		}
		for e := range old.table.all {
			age := 0
			if !e.has(done) {
				age = e.age() + 1
			}
			if e.duration > 0 && age <= maxAge {
				r.known(e, age, nil, nil)
			}
		}
		return nil
	})
}

// nextOutput returns the name that follows that of a file of outputs.
func nextOutput(name string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, outputPrefix))
	return outputPrefix + strconv.Itoa(n+1)
}

// compact rewrites a journal with only what is still needed. With outputs, it also
// copies the needed outputs to a new file. The outputs are durable before the journal
// is: the last run may have been killed before it synced them.
func compact(dir string, c Command, l *loaded, outputs bool) error {
	h := heading{c, l.head.Output, l.head.Queue, l.last}
	from, err := openFile(filepath.Join(dir, h.output), 0, h.queue != "")
	if err != nil {
		return err
	}
	defer from.Close()
	m := &mover{to: from}
	if outputs {
		h.output = nextOutput(h.output)
		to, err := openFile(filepath.Join(dir, h.output), os.O_CREATE|os.O_TRUNC, h.queue != "")
		if err != nil {
			return err
		}
		defer to.Close()
		m = &mover{from: from, to: to}
	}
	return rewrite(dir, h, func(r *rewriter) error {
		if err := l.compact(r, m); err != nil {
			return err
		}
		return cmp.Or(m.err, m.to.Sync())
	})
}

// compact writes what is still needed of the loaded lines, and moves the outputs with m.
func (l *loaded) compact(r *rewriter, m *mover) error {
	_, err := scan(io.NewSectionReader(l.file, 0, l.scanned.end), func(ln line) {
		body := l.compacted(ln, r)
		if body != nil {
			body = m.move(body)
		}
		if body != nil {
			r.write(body)
		}
	})
	return err
}

// compacted returns what a line says that no later one does, as the body of a new
// line. The result is nil if that is nothing, or if r has written it.
func (l *loaded) compacted(ln line, r *rewriter) []byte {
	ev := event(ln.body)
	if ev == evRun && l.run == ln.off {
		return bytes.Clone(ln.body)
	}
	id, ok := taskOf(ln.body)
	if !ok {
		return nil
	}
	e := l.table.find(id)
	if e == nil || l.forgets(e) {
		return nil
	}
	if ev == evAccepted && e.spec() == ln.off && !l.succeeded(e) {
		r.environment(l, field(ln.body, "environment"))
		return bytes.Clone(ln.body)
	}
	if l.keeps(id, ln) {
		r.write(bytes.Clone(ln.body))
	}
	if e.offset() != ln.off {
		return nil
	}
	interrupted := ev == evStarted && l.running[id] == ln.off
	switch {
	case e.has(done) && ev == evEnded:
		r.keepOutputs(ln.body)
		return endedBody(e, ln.body)
	case e.has(done):
	case interrupted:
		if e.attempts > 0 || e.duration > 0 {
			r.known(e, e.age(), ln.body, l.tries[id])
		}
		return bytes.Clone(ln.body) // the start has to be the last line about the task
	case e.has(begun):
		r.known(e, e.age(), ln.body, l.tries[id])
	case e.duration > 0:
		r.known(e, e.age(), nil, nil)
	}
	return nil
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

// rewrite replaces the journal of dir by one that consists of its first line and of
// what write writes. At any moment one of the two is there and complete. The renaming
// is not durable yet (see Journal.reload).
func rewrite(dir string, h heading, write func(*rewriter) error) error {
	f, err := draft(dir, h, write)
	if err != nil {
		return err
	}
	err = f.Close()
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, journalName))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// draft writes the journal that is to replace the one of dir, and makes it durable.
func draft(dir string, h heading, write func(*rewriter) error) (*os.File, error) {
	f, err := openFile(filepath.Join(dir, newName), os.O_CREATE|os.O_TRUNC, h.queue != "")
	if err != nil {
		return nil, err
	}
	r := &rewriter{w: bufio.NewWriterSize(f, 256<<10), envs: map[identity]bool{}, lowest: math.MaxInt64}
	_, _ = r.w.Write(h.append(nil, time.Now()))
	err = write(r)
	if err == nil {
		err = cmp.Or(r.w.Flush(), f.Sync())
	}
	if err != nil {
		f.Close()
		_ = os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// rewriter writes the lines of a new journal.
type rewriter struct {
	w   *bufio.Writer // keeps its first error until it is flushed
	buf []byte

	envs   map[identity]bool // the environments that were written
	lowest int64             // offset of the first output that a line refers to
}

// write seals and writes the body of a line.
func (r *rewriter) write(body []byte) {
	r.buf = seal(body, 0)
	_, _ = r.w.Write(r.buf)
}

// environment writes the line about an environment unless it was written already.
// Without that line, the task that refers to it cannot run.
func (r *rewriter) environment(l *loaded, name []byte) {
	sum, ok := parseID(name)
	if !ok || r.envs[sum] {
		return
	}
	r.envs[sum] = true
	if text, err := readLine(l.file, l.envs[sum]); err == nil {
		if body, ok := unseal(text); ok && event(body) == evEnvironment {
			r.write(body)
		}
	}
}

// keepOutputs notes the outputs that a body refers to.
func (r *rewriter) keepOutputs(body []byte) {
	for _, name := range streams {
		if p, ok := parseExtent(field(body, name)); ok && p.n > 0 {
			r.lowest = min(r.lowest, p.off)
		}
	}
}

// known writes what is known of a task that is not done: its duration and, if it has
// begun, its attempts, behind the lines of those that are kept. last is then the body of
// the last line about it, otherwise nil.
func (r *rewriter) known(e *entry, age int, last []byte, t *tries) {
	f := task.Facts{Duration: task.Seconds(float64(e.duration) * 1e9)}
	if last != nil {
		f.Attempt = int(e.attempts)
		if rec, err := parse(last); err == nil {
			f.Command = rec.Command
		}
	}
	b := task.AppendInt(f.Append(beginTask(r.buf[:0], evKnown, e.id)), "age", int64(age))
	if last != nil {
		b = task.AppendInt(b, "failures", int64(e.failures))
		if t != nil {
			b = task.AppendInt(b, "omitted", int64(t.omitted))
		}
	}
	r.write(b)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return cmp.Or(d.Sync(), d.Close())
}

// mover copies outputs to a new file, unless from is nil: then they stay where they are.
type mover struct {
	from, to *os.File
	end      int64
	err      error // the first
}

// move copies the outputs of a body and returns a body with their new extents. An
// output that is cut short keeps its length, so it is found damaged when it is opened.
func (m *mover) move(body []byte) []byte {
	if m.from == nil {
		return body
	}
	for _, name := range streams {
		p, ok := parseExtent(field(body, name))
		if !ok || p.n == 0 {
			continue
		}
		n, err := io.Copy(io.NewOffsetWriter(m.to, m.end), io.NewSectionReader(m.from, p.off, p.n))
		m.err = cmp.Or(m.err, err)
		moved := extent{m.end, p.n, p.sum}
		body = bytes.Replace(body, appendExtent(nil, name, p), appendExtent(nil, name, moved), 1)
		m.end += n
	}
	return body
}
