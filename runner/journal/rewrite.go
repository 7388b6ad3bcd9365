package journal

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"crew/runner/task"
)

const (
	newName      = "journal.new"
	outputPrefix = "output."

	// maxAge is how often a journal can be begun anew before a duration that
	// was not measured again is forgotten.
	maxAge = 3
)

// rewriter writes a journal that takes the place of the one in its directory
// when it is complete, and not before: whenever that ends, one of the two is
// there, and whole.
type rewriter struct {
	dir  string
	file *os.File
	w    *bufio.Writer
	buf  []byte
	out  string // the file of outputs that it speaks of
}

// rewrite begins a journal of a command whose outputs are in the file out, which
// is made where it is missing.
func rewrite(dir string, c Command, out string) (*rewriter, error) {
	f, err := os.Create(filepath.Join(dir, newName))
	if err != nil {
		return nil, err
	}
	r := &rewriter{dir: dir, file: f, w: bufio.NewWriterSize(f, 256<<10), out: out}
	r.write(appendHead(nil, c, out, time.Now()))
	return r, nil
}

func appendHead(b []byte, c Command, out string, now time.Time) []byte {
	from := len(b)
	b = begin(b, evJournal)
	b = task.AppendInt(b, "version", version)
	b = task.AppendTime(b, "created", now)
	b = task.AppendText(b, "command", task.Shorten(c.Line, shownCommand))
	b = task.AppendText(b, "sum", c.sum())
	b = task.AppendText(b, "dir", c.Dir)
	b = task.AppendText(b, "output", out)
	return seal(b, from)
}

// shownCommand is how much of the command line stands in the first line.
const shownCommand = 4000

// Command is what a journal's tasks are made of.
type Command struct {
	Line string // the command line, as far as it says what the tasks are
	Dir  string // where they run
}

// sum stands for the whole command.
func (c Command) sum() string {
	h := hasher{}
	h.text(c.Line)
	h.text(c.Dir)
	id := h.sum()
	return hex.EncodeToString(id[:])
}

// write writes lines; an error shows at finish.
func (r *rewriter) write(lines []byte) { _, _ = r.w.Write(lines) }

// known writes how long a task took.
func (r *rewriter) known(e *entry, age int) {
	b := beginTask(r.buf[:0], evKnown, e.id)
	b = task.AppendSeconds(b, "duration", seconds(float64(e.took)))
	b = task.AppendInt(b, "age", int64(age))
	r.buf = seal(b, 0)
	r.write(r.buf)
}

// begun writes what is known of a task that was begun and is not done, from the
// last line about it.
func (r *rewriter) begun(e *entry, body []byte) {
	command := string(field(body, "command"))
	b := beginTask(r.buf[:0], evKnown, e.id)
	b = task.AppendSeconds(b, "duration", seconds(float64(e.took)))
	b = task.AppendInt(b, "age", int64(e.age()))
	b = task.AppendInt(b, "attempt", int64(e.attempts))
	b = task.AppendInt(b, "failures", int64(e.failures))
	b = append(append(append(task.AppendName(b, "command"), '"'), command...), '"')
	r.buf = seal(b, 0)
	r.write(r.buf)
}

// finish puts the new journal into its place. That it stays there when the
// machine fails is up to who loads it (Journal.loadNew).
func (r *rewriter) finish() error {
	err := r.w.Flush()
	if err == nil {
		err = r.file.Sync()
	}
	if e := r.file.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = makeFile(filepath.Join(r.dir, r.out))
	}
	if err == nil {
		err = os.Rename(r.file.Name(), filepath.Join(r.dir, journalName))
	}
	if err != nil {
		_ = os.Remove(r.file.Name())
	}
	return err
}

// abandon leaves the old journal as it is.
func (r *rewriter) abandon() {
	_ = r.file.Close()
	_ = os.Remove(r.file.Name())
}

func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// anew writes a journal without tasks: what is left of the old one, if any, is
// how long they took.
func anew(dir string, c Command, old *loaded) error {
	out := outputPrefix + "1"
	if old != nil {
		out = nextOutput(old.head.Output)
	}
	r, err := rewrite(dir, c, out)
	if err != nil {
		return err
	}
	if old != nil {
		old.table.all(func(e *entry) {
			age := 0
			if !e.has(done) {
				age = e.age() + 1
			}
			if e.took > 0 && age <= maxAge {
				r.known(e, age)
			}
		})
	}
	return r.finish()
}

// nextOutput is the name after that of a file of outputs.
func nextOutput(name string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(name, outputPrefix))
	if err != nil {
		n = 0
	}
	return outputPrefix + strconv.Itoa(n+1)
}

// compact writes the journal in old once more with what is needed of it; with
// outputs, those that are needed go into a new file, too.
func compact(dir string, c Command, old *os.File, l *loaded, withOutputs bool) error {
	m := mover{}
	out := l.head.Output
	if withOutputs {
		out = nextOutput(out)
		if err := m.open(dir, l.head.Output, out); err != nil {
			return err
		}
		defer m.close()
	}
	r, err := rewrite(dir, c, out)
	if err != nil {
		return err
	}
	_, err = scan(io.NewSectionReader(old, 0, l.scanned.end), func(ln line) {
		if body := l.still(ln, r); body != nil {
			if withOutputs {
				body = m.move(body)
			}
			r.buf = seal(body, 0)
			r.write(r.buf)
		}
	})
	if err == nil {
		err = m.finish()
	}
	if err != nil {
		r.abandon()
		return err
	}
	return r.finish()
}

// still is what a line still says that no later one does, as a line's body of
// the caller's own; nil where it says nothing, or r has taken it.
func (l *loaded) still(ln line, r *rewriter) []byte {
	id, ok := taskOf(ln.body)
	if !ok {
		return nil
	}
	e := l.table.find(id)
	latest := e != nil && e.at() == ln.at
	if !latest {
		return nil
	}
	body := append([]byte(nil), ln.body...)
	switch ev := event(ln.body); {
	case e.has(done) && ev == evEnded:
		return ofDone(e, body)
	case e.has(done):
	case ev == evStarted && l.running[id] == ln.at:
		if e.attempts > 0 || e.took > 0 {
			r.begun(e, body) // behind which comes the latest line about it
		}
		return body
	case e.has(begun):
		r.begun(e, body)
	case e.took > 0:
		r.known(e, e.age())
	}
	return nil
}

// ofDone is the line about the end of a task with what became of its result since.
func ofDone(e *entry, body []byte) []byte {
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

// mover copies outputs into another file. The zero mover moves none.
type mover struct {
	from, to *os.File
	end      int64
	err      error
}

func (m *mover) open(dir, from, to string) (err error) {
	if m.from, err = os.Open(filepath.Join(dir, from)); err != nil {
		return err
	}
	m.to, err = os.Create(filepath.Join(dir, to))
	if err != nil {
		m.from.Close()
	}
	return err
}

// move copies the outputs of a line's body and says where they are now. One
// that is not there any more is moved as it is: who wants it will see.
func (m *mover) move(body []byte) []byte {
	for _, name := range streams {
		p, ok := extentOf(field(body, name))
		if !ok {
			continue
		}
		body = without(body, name)
		n, err := io.Copy(io.NewOffsetWriter(m.to, m.end), io.NewSectionReader(m.from, p.off, p.n))
		if err != nil && m.err == nil {
			m.err = fmt.Errorf("move outputs: %w", err)
		}
		p.off = m.end
		m.end += n
		body = appendExtent(body, name, p)
	}
	return body
}

func (m *mover) finish() error {
	if m.to == nil {
		return nil
	}
	return errors.Join(m.err, m.to.Sync())
}

func (m *mover) close() {
	_ = m.from.Close()
	_ = m.to.Close()
}
