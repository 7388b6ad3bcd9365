package sink

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/keep/trust"
)

const joblogHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// Joblog writes a row for each task as it ends, in the nine tab-separated columns
// of GNU parallel's --joblog (parallel(1)), so programs that read those can read
// it.
//
// In a command, control characters are written as \t, \n, \r and \xHH, byte by byte,
// and a backslash as \\. So each task is one line, the command can be recovered, and the
// log can be shown on a terminal. Exitval is -1 if crew itself ended the task or lost it, or
// got no answer or output, and Host a colon for this machine. JobRuntime has from 1 to mostMarks
// blanks more in front of it than parallel writes: so who reads a row knows who has written the
// command, and runs that write to a file at the same time are told apart by how many they are.
// A task that never ran because the run ended before it has no row.
type Joblog struct {
	path string
	file *os.File
	kept bool           // it is a regular file, which can be read back
	buf  []byte         // the rows of a batch
	mark string         // the blanks of this run; "" before its first row
	had  map[string]int // how often the file has a row of an earlier result
}

// mostMarks is of how many runs at the same time the rows are told apart.
const mostMarks = 32

// JoblogMode says what becomes of the rows that a joblog holds.
type JoblogMode uint8

// The modes.
const (
	JoblogNew    JoblogMode = iota // they go
	JoblogShared                   // they stay, as other runs write to the file, before this one or beside it
	// JoblogResumed is for a run that goes on: they stay, but for a last one that a crash has
	// cut. A file that cannot be read back, such as a pipe, is left as it is.
	JoblogResumed
)

// OpenJoblog opens or creates the file, and writes its header if there is none. Of the
// earlier results that a resumed run brings along, those with these starts may already
// have a row, and get no second one; starts may be nil.
func OpenJoblog(path string, mode JoblogMode, starts iter.Seq[time.Time]) (*Joblog, error) {
	flags := os.O_APPEND
	if mode == JoblogNew {
		flags = os.O_TRUNC
	}
	f, err := trust.OpenFile(path, os.O_RDWR|os.O_CREATE|flags, 0o666)
	if _, untrusted := errors.AsType[*trust.Error](err); untrusted {
		return nil, fmt.Errorf("open joblog: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open joblog %s: %w", path, task.WithoutPath(err))
	}
	st, err := f.Stat()
	j := &Joblog{path: path, file: f, kept: err == nil && st.Mode().IsRegular(), had: map[string]int{}}
	if err := j.begin(mode, starts); err != nil {
		f.Close()
		return nil, j.fail(err)
	}
	return j, nil
}

// begin makes the file end with a whole row, or the header. A resumed run cuts a last row without
// newline, and remembers the rows with these starts.
func (j *Joblog) begin(mode JoblogMode, starts iter.Seq[time.Time]) (err error) {
	if mode == JoblogResumed && !j.kept {
		return nil
	}
	defer j.lock()()
	size, text, last := int64(0), "", []byte{'\n'}
	switch st, failed := j.file.Stat(); {
	case failed != nil:
		return failed
	case mode != JoblogResumed:
		if size = st.Size(); size > 0 {
			_, err = j.file.ReadAt(last, size-1)
		}
	default:
		sought := map[string]bool{} // as they stand in rows
		if starts != nil {
			for start := range starts {
				sought[seconds(start.UnixMilli())] = true
			}
		}
		if size, _, err = j.read(sought); err == nil {
			err = j.file.Truncate(size)
		}
	}
	if size == 0 {
		text = joblogHeader
	} else if last[0] != '\n' {
		text = "\n"
	}
	if err == nil {
		_, err = j.file.WriteString(text)
	}
	return err
}

// read reads the file, and remembers the rows with starts that are sought. It returns the size of all
// whole rows, and the mark that no row has yet or, if the file has rows with each, the one whose latest
// row comes first.
func (j *Joblog) read(sought map[string]bool) (whole int64, mark string, err error) {
	var last [mostMarks]int
	in := bufio.NewReaderSize(io.NewSectionReader(j.file, 0, math.MaxInt64), 64<<10)
	for n := 1; j.kept && err == nil; n++ {
		var row string
		if row, err = in.ReadString('\n'); err == nil {
			whole += int64(len(row))
			start, mark, key := parts(row)
			if mark > 0 && mark <= mostMarks {
				last[mark-1] = n
			}
			if sought[start] {
				j.had[key]++
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	return whole, strings.Repeat(" ", 1+slices.Index(last[:], slices.Min(last[:]))), err
}

// parts returns the start and the mark of a row, and all of it without the mark and the task's
// number, which differ from run to run.
func parts(row string) (start string, mark int, key string) {
	cell := strings.SplitN(row, "\t", 5)
	if len(cell) < 5 {
		return "", 0, ""
	}
	return cell[2], task.JoblogMark(cell[3]), cell[1] + "\t" + cell[2] + "\t" + strings.TrimLeft(cell[3], " ") + "\t" + cell[4]
}

// lock keeps other runs from opening the file and from choosing a mark, until unlock is called. Without
// locks, which some network file systems lack, runs that begin at once may get the same mark.
func (j *Joblog) lock() (unlock func()) {
	set := func(how int16) {
		if j.kept {
			_ = kernel.IgnoreEINTR(func() error { return unix.FcntlFlock(j.file.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: how}) })
		}
	}
	set(unix.F_WRLCK)
	return func() { set(unix.F_UNLCK) }
}

// Consume writes the rows of a batch in one write.
func (j *Joblog) Consume(events []task.Event) error {
	j.buf = j.buf[:0]
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || !ran(e) {
			continue
		}
		if e.Result.Known() {
			if _, _, key := parts(string(appendRow(nil, e, ""))); j.had[key] > 0 {
				j.had[key]--
				continue
			}
		}
		if j.mark == "" {
			defer j.lock()() // until this run has written a row
			var err error
			if _, j.mark, err = j.read(nil); err != nil {
				return j.fail(err)
			}
		}
		j.buf = appendRow(j.buf, e, j.mark)
	}
	if len(j.buf) == 0 {
		return nil
	}
	_, err := j.file.Write(j.buf)
	return j.fail(err)
}

// Sync makes the rows durable, unless the file is a pipe or a terminal.
func (j *Joblog) Sync() error {
	if !j.kept {
		return nil
	}
	return j.fail(j.file.Sync())
}

// Close closes the file.
func (j *Joblog) Close(task.Stats) error { return j.fail(j.file.Close()) }

// fail returns err, if it is one, with what was being done.
func (j *Joblog) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write joblog %s: %w", j.path, task.WithoutPath(err))
}

// ran reports whether a finished task has a result that no earlier run has
// logged: it ran, was tried and could not be started, or was skipped.
func ran(e *task.Event) bool {
	return !e.Result.Logged && e.Result.Outcome != task.NotRun && (e.Result.Outcome != task.Cancelled || e.Attempt > 0)
}

// appendRow appends a row with a mark.
func appendRow(b []byte, e *task.Event, mark string) []byte {
	t, r := e.Task, e.Result
	start := r.Start
	if start.IsZero() {
		start = e.At
	}
	code := r.Code
	switch r.Outcome {
	case task.Timeout, task.Cancelled, task.Lost, task.BadAnswer, task.NoOutput, task.Memory:
		code = -1
	}
	runtime := seconds(r.Duration().Milliseconds())
	b = strconv.AppendUint(b, t.ID, 10)
	b = append(b, "\t"+cmp.Or(r.Host, ":")+"\t"+seconds(start.UnixMilli())+"\t"+mark+"          "[min(len(runtime), 10):]+runtime+"\t"...)
	for _, n := range [...]int64{t.InputSize(), task.Length(r.Stdout), int64(code), int64(r.Signal)} {
		b = append(strconv.AppendInt(b, n, 10), '\t')
	}
	return append(appendEscaped(b, t.CommandLine(t.ArgvIn(r))), '\n')
}

// seconds returns milliseconds as they stand in a row.
func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }

// appendEscaped appends a command as it stands in a row.
func appendEscaped(b []byte, s string) []byte {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		switch {
		case strings.ContainsRune("\\\t\n\r", r):
			b = append(b, '\\', `\tnr`[strings.IndexRune("\\\t\n\r", r)])
		case unicode.IsControl(r), c < "\xa0" && !utf8.ValidString(c): // alone, a byte is a control character to some terminals
			for i := range n {
				b = fmt.Appendf(b, `\x%02x`, c[i])
			}
		default:
			b = append(b, c...)
		}
	}
	return b
}
