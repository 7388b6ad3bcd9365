package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
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

// appendHead appends the first line of a journal whose outputs are in the file out.
func appendHead(b []byte, c Command, out string, now time.Time) []byte {
	from := len(b)
	b = begin(b, evJournal)
	b = task.AppendInt(b, "version", version)
	b = task.AppendTime(b, "created", now)
	b = task.AppendText(b, "command", task.Shorten(c.Line, maxCommandLine))
	b = task.AppendText(b, "sum", c.sum())
	b = task.AppendText(b, "dir", c.Dir)
	b = task.AppendText(b, "output", out)
	return seal(b, from)
}

// createJournal writes a journal without tasks, and creates its file of outputs. Of
// the old journal, if not nil, it keeps how long the tasks took.
func createJournal(dir string, c Command, old *loaded) error {
	out := outputPrefix + "1"
	if old != nil {
		out = nextOutput(old.head.Output)
	}
	// The file must not be truncated yet: it may belong to a journal that cannot be
	// read, and that stays if this one cannot be completed.
	f, err := os.OpenFile(filepath.Join(dir, out), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return err
	}
	f.Close()
	return rewrite(dir, c, out, func(r *rewriter) error {
		if old == nil {
			return nil
		}
		for e := range old.table.all {
			age := 0
			if !e.has(done) {
				age = e.age() + 1
			}
			if e.duration > 0 && age <= maxAge {
				r.known(e, age, nil)
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
// copies the needed outputs to a new file.
func compact(dir string, c Command, l *loaded, outputs bool) error {
	var m *mover
	out := l.head.Output
	if outputs {
		from, err := os.Open(filepath.Join(dir, out))
		if err != nil {
			return err
		}
		defer from.Close()
		out = nextOutput(out)
		to, err := os.Create(filepath.Join(dir, out))
		if err != nil {
			return err
		}
		defer to.Close()
		m = &mover{from: from, to: to}
	}
	return rewrite(dir, c, out, func(r *rewriter) error {
		_, err := scan(io.NewSectionReader(l.file, 0, l.scanned.end), func(ln line) {
			body := l.compacted(ln, r)
			if body != nil && m != nil {
				body = m.move(body)
			}
			if body != nil {
				r.write(body)
			}
		})
		if err == nil && m != nil {
			err = cmp.Or(m.err, m.to.Sync())
		}
		return err
	})
}

// compacted returns what a line says that no later one does, as the body of a new
// line. The result is nil if that is nothing, or if r has written it.
func (l *loaded) compacted(ln line, r *rewriter) []byte {
	id, ok := taskOf(ln.body)
	if !ok {
		return nil
	}
	e := l.table.find(id)
	if e == nil || e.offset() != ln.off {
		return nil
	}
	ev := event(ln.body)
	interrupted := ev == evStarted && l.running[id] == ln.off
	switch {
	case e.has(done) && ev == evEnded:
		return endedBody(e, ln.body)
	case e.has(done):
	case interrupted:
		if e.attempts > 0 || e.duration > 0 {
			r.known(e, e.age(), ln.body)
		}
		return bytes.Clone(ln.body) // the start has to be the last line about the task
	case e.has(begun):
		r.known(e, e.age(), ln.body)
	case e.duration > 0:
		r.known(e, e.age(), nil)
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
func rewrite(dir string, c Command, out string, write func(*rewriter) error) error {
	f, err := os.Create(filepath.Join(dir, newName))
	if err != nil {
		return err
	}
	r := &rewriter{w: bufio.NewWriterSize(f, 256<<10)}
	_, _ = r.w.Write(appendHead(nil, c, out, time.Now()))
	err = write(r)
	if err == nil {
		err = cmp.Or(r.w.Flush(), f.Sync())
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, journalName))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// rewriter writes the lines of a new journal.
type rewriter struct {
	w   *bufio.Writer // keeps its first error until it is flushed
	buf []byte
}

// write seals and writes the body of a line.
func (r *rewriter) write(body []byte) {
	r.buf = seal(body, 0)
	_, _ = r.w.Write(r.buf)
}

// known writes what is known of a task that is not done: its duration and, if it has
// begun, its attempts. last is then the body of the last line about it, otherwise
// nil.
func (r *rewriter) known(e *entry, age int, last []byte) {
	b := beginTask(r.buf[:0], evKnown, e.id)
	b = task.AppendSeconds(b, "duration", seconds(float64(e.duration)))
	b = task.AppendInt(b, "age", int64(age))
	if last != nil {
		b = task.AppendInt(b, "attempt", int64(e.attempts))
		b = task.AppendInt(b, "failures", int64(e.failures))
		b = append(task.AppendName(b, "command"), '"')
		b = append(append(b, field(last, "command")...), '"')
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

// mover copies outputs to a new file.
type mover struct {
	from, to *os.File
	end      int64
	err      error // the first
}

// move copies the outputs of a body and returns a body with their new extents. An
// output that is cut short keeps its length, so it is found damaged when it is opened.
func (m *mover) move(body []byte) []byte {
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
