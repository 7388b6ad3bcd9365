package sink

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"crew/runner/task"
	"crew/runner/trust"
)

const joblogHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// Joblog writes a row for each task as it ends, in the nine tab-separated columns
// of GNU parallel's --joblog (parallel(1)), so programs that read those can read
// it.
//
// In a command, control characters are written as \t, \n, \r and \xHH, byte by byte,
// and a backslash as \\. So each task is one line, the command can be recovered, and the
// log can be shown on a terminal. Exitval is -1 if crew itself ended the task or lost it, or
// got no answer or output, and Host a colon for this machine. JobRuntime has a blank more in front
// of it than parallel writes: so who reads a row knows who has written the command.
// A task that never ran because the run ended before it has no row.
type Joblog struct {
	path string
	file *os.File
	buf  []byte         // the rows of a batch
	had  map[string]int // how often the file has a row of an earlier result
}

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
	j := &Joblog{path: path, file: f, had: map[string]int{}}
	if err := j.begin(mode, starts); err != nil {
		f.Close()
		return nil, j.fail(err)
	}
	return j, nil
}

// begin makes the file end with a whole row, or the header.
func (j *Joblog) begin(mode JoblogMode, starts iter.Seq[time.Time]) error {
	st, err := j.file.Stat()
	if err != nil || mode == JoblogResumed && !st.Mode().IsRegular() {
		return err
	}
	size, text, last := st.Size(), "", []byte{'\n'}
	if mode == JoblogResumed {
		size, err = j.resume(starts)
	} else if size > 0 {
		_, err = j.file.ReadAt(last, size-1)
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

// resume cuts a last row without newline, and remembers the rows with these starts. It
// returns the size of what is left.
func (j *Joblog) resume(starts iter.Seq[time.Time]) (whole int64, err error) {
	sought := map[int64]bool{} // in milliseconds, as they stand in rows
	if starts != nil {
		for start := range starts {
			sought[start.UnixMilli()] = true
		}
	}
	in := bufio.NewReaderSize(j.file, 64<<10)
	for {
		row, err := in.ReadString('\n')
		if err == io.EOF {
			return whole, j.file.Truncate(whole)
		}
		if err != nil {
			return whole, err
		}
		whole += int64(len(row))
		if sought[startOf(row)] {
			j.had[withoutSeq(row)]++
		}
	}
}

// startOf returns when a row's task started, in Unix milliseconds, or 0.
func startOf(row string) int64 {
	cell := strings.SplitN(row, "\t", 4)
	if len(cell) < 4 {
		return 0
	}
	ms, _ := strconv.ParseInt(strings.Replace(cell[2], ".", "", 1), 10, 64)
	return ms
}

// withoutSeq returns a row without the task's number, which may differ from run
// to run.
func withoutSeq(row string) string {
	_, rest, _ := strings.Cut(row, "\t")
	return rest
}

// Consume writes the rows of a batch in one write.
func (j *Joblog) Consume(events []task.Event) error {
	j.buf = j.buf[:0]
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || !ran(e) {
			continue
		}
		from := len(j.buf)
		j.buf = appendRow(j.buf, e)
		if !e.Result.Known() {
			continue
		}
		if row := withoutSeq(string(j.buf[from:])); j.had[row] > 0 {
			j.had[row]--
			j.buf = j.buf[:from]
		}
	}
	if len(j.buf) == 0 {
		return nil
	}
	_, err := j.file.Write(j.buf)
	return j.fail(err)
}

// Sync makes the rows durable, unless the file is a pipe or a terminal.
func (j *Joblog) Sync() error {
	err := j.file.Sync()
	st, failed := j.file.Stat() // systems have several errors for what is no file
	if errors.Is(err, syscall.EINVAL) || failed == nil && !st.Mode().IsRegular() {
		return nil
	}
	return j.fail(err)
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

func appendRow(b []byte, e *task.Event) []byte {
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
	seconds := func(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
	runtime := seconds(r.Duration().Milliseconds())
	pad := "          "[min(len(runtime)-1, 9):] // to eleven columns, which tells a row from one of parallel
	b = strconv.AppendUint(b, t.ID, 10)
	b = append(b, "\t"+cmp.Or(r.Host, ":")+"\t"+seconds(start.UnixMilli())+"\t"+pad+runtime+"\t"...)
	for _, n := range [...]int64{t.InputSize(), task.Length(r.Stdout), int64(code), int64(r.Signal)} {
		b = append(strconv.AppendInt(b, n, 10), '\t')
	}
	return append(appendEscaped(b, t.CommandLine(t.ArgvIn(r))), '\n')
}

// appendEscaped appends a command as it stands in a row.
func appendEscaped(b []byte, s string) []byte {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		switch {
		case r == '\\':
			b = append(b, `\\`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
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
