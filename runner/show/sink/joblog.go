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
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/keep/trust"
)

const joblogHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// Joblog writes a row for each task when it ends, in the nine tab-separated columns of GNU
// parallel's --joblog (parallel(1)), so that programs for those logs can read it.
//
// In a command, control characters are written as \t, \n, \r or \xHH, byte by byte, and a backslash
// as \\. So each task is one line, the command can be recovered, and the log is safe to show on a
// terminal. Exitval is -1 if crew ended or lost the task, or got no answer or output. Host is a
// colon for this machine. A task with the outcome NotRun, or cancelled before it began, has no row.
//
// JobRuntime has 1 to maxMarks more leading blanks than parallel writes. They show a reader that
// crew has escaped the command, and their number distinguishes runs that write to the file at the
// same time.
type Joblog struct {
	path    string
	file    *os.File
	regular bool // it is a regular file, which can be read back

	mu        sync.Mutex     // held while rows are written
	err       error          // the first error of writing rows
	buf       []byte         // to be written
	read      bool           // something was written, so a FIFO has had a reader
	mark      string         // blanks that mark the rows of this run; "" before the first one
	rowCounts map[string]int // number of rows in the file by key, for results of earlier runs
}

const (
	maxMarks = 32 // number of different marks

	// readerTimeout is how long a write to a FIFO waits for the next reader.
	readerTimeout = time.Second
)

// JoblogMode says how to treat the existing rows of a joblog.
type JoblogMode uint8

// The joblog modes.
const (
	JoblogNew    JoblogMode = iota // remove them
	JoblogShared                   // keep them, because other runs write to the same file
	// JoblogResumed is for a resumed run. It keeps the rows except a last one that a crash has cut.
	JoblogResumed
)

// OpenJoblog opens or creates the file, and writes a header if it is empty. starts are the start
// times of earlier results that may already have a row, which then is not repeated; only JoblogResumed
// needs them.
func OpenJoblog(path string, mode JoblogMode, starts iter.Seq[time.Time]) (*Joblog, error) {
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if mode == JoblogNew {
		flags ^= os.O_APPEND | os.O_TRUNC
	}
	var reader *os.File // lets a FIFO be opened for writing; if it stayed, no write would ever fail
	if st, err := os.Stat(path); err == nil && st.Mode()&os.ModeNamedPipe != 0 {
		flags = os.O_WRONLY | unix.O_NONBLOCK
		reader, _ = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	f, err := trust.OpenFile(path, flags, 0o666)
	reader.Close()
	if _, untrusted := errors.AsType[*trust.Error](err); untrusted {
		return nil, fmt.Errorf("open joblog: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open joblog %s: %w", path, task.WithoutPath(err))
	}
	st, err := f.Stat()
	j := &Joblog{path: path, file: f, regular: err == nil && st.Mode().IsRegular(), rowCounts: map[string]int{}}
	if err := j.prepare(mode, starts); err != nil {
		f.Close()
		return nil, j.wrap(err)
	}
	return j, nil
}

// prepare makes sure that the file ends with a complete row or the header. A resumed run truncates
// an incomplete last row, and counts the rows with the given starts.
func (j *Joblog) prepare(mode JoblogMode, starts iter.Seq[time.Time]) (err error) {
	defer j.lock()()
	size, last := int64(0), []byte{'\n'}
	switch st, failed := j.file.Stat(); {
	case failed != nil:
		return failed
	case mode != JoblogResumed || !j.regular:
		if size = st.Size(); size > 0 {
			_, err = j.file.ReadAt(last, size-1)
		}
	default:
		sought := map[string]bool{} // in the format of rows
		for start := range starts {
			sought[seconds(start.UnixMilli())] = true
		}
		if size, _, err = j.readRows(sought); err == nil {
			err = j.file.Truncate(size)
		}
	}
	if size == 0 {
		j.buf = []byte(joblogHeader)
	} else if last[0] != '\n' {
		j.buf = []byte("\n")
	}
	if err == nil {
		err = j.write()
	}
	return err
}

// write writes buf. Up to piece bytes wait for the first reader of a FIFO, and then write waits for it, as
// opening the FIFO would.
func (j *Joblog) write() (err error) {
	for again := true; again; again = !j.read && errors.Is(err, unix.EPIPE) {
		kernel.Poll(readerTimeout, func() bool {
			var n int
			n, err = j.file.Write(j.buf)
			j.buf, j.read = j.buf[n:], j.read || n > 0
			if !errors.Is(err, unix.EPIPE) {
				return true
			}
			if !j.read && len(j.buf) < piece {
				err = nil
			}
			return err == nil
		})
	}
	return err
}

// readRows reads the file and counts the rows with a sought start. It returns the size of all
// complete rows, and the mark for this run: one that no row has or, if all are used, the one whose
// last row is the earliest.
func (j *Joblog) readRows(sought map[string]bool) (whole int64, mark string, err error) {
	var last [maxMarks]int
	in := bufio.NewReaderSize(io.NewSectionReader(j.file, 0, math.MaxInt64), 64<<10)
	for n := 1; j.regular && err == nil; n++ {
		var row string
		if row, err = in.ReadString('\n'); err == nil {
			whole += int64(len(row))
			start, mark, key := parseRow(row)
			if mark > 0 && mark <= maxMarks {
				last[mark-1] = n
			}
			if sought[start] {
				j.rowCounts[key]++
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	return whole, strings.Repeat(" ", 1+slices.Index(last[:], slices.Min(last[:]))), err
}

// parseRow returns the start and the mark of a row, and a key: the row without its mark and its
// task number, which differ from run to run.
func parseRow(row string) (start string, mark int, key string) {
	cell := strings.SplitN(row, "\t", 5)
	if len(cell) < 5 {
		return "", 0, ""
	}
	return cell[2], task.JoblogMark(cell[3]), cell[1] + "\t" + cell[2] + "\t" + strings.TrimLeft(cell[3], " ") + "\t" + cell[4]
}

// lock prevents other runs from opening the file or choosing a mark until unlock is called. Some
// network file systems have no locks; there, runs that begin at the same time may choose the same
// mark.
func (j *Joblog) lock() (unlock func()) {
	set := func(how int16) {
		if j.regular {
			_ = kernel.IgnoreEINTR(func() error { return unix.FcntlFlock(j.file.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: how}) })
		}
	}
	set(unix.F_WRLCK)
	return func() { set(unix.F_UNLCK) }
}

// Complete writes the row of an Unlogged end of t. Call it before t can start: a recorded start makes
// later runs forget the end. Consume returns its error.
func (j *Joblog) Complete(t *task.Task) {
	if t.History != nil && t.History.Unlogged != nil {
		_ = j.Consume([]task.Event{{Kind: task.Finished, At: time.Now(), Task: t, Result: t.History.Unlogged}})
	}
}

// Consume writes the rows of a batch in one write.
func (j *Joblog) Consume(events []task.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = j.consumeLocked(events)
	}
	return j.err
}

func (j *Joblog) consumeLocked(events []task.Event) error {
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || !mustLog(e) {
			continue
		}
		if len(j.rowCounts) > 0 {
			if _, _, key := parseRow(string(appendRow(nil, e, ""))); j.rowCounts[key] > 0 {
				j.rowCounts[key]--
				continue
			}
		}
		if j.mark == "" {
			defer j.lock()() // until this run has written a row
			var err error
			if _, j.mark, err = j.readRows(nil); err != nil {
				return j.wrap(err)
			}
		}
		j.buf = appendRow(j.buf, e, j.mark)
	}
	return j.wrap(j.write())
}

// Sync makes the rows durable, unless the file is a pipe or a terminal.
func (j *Joblog) Sync() error {
	if !j.regular {
		return nil
	}
	return j.wrap(j.file.Sync())
}

// Close writes the rows that waited for a reader, and closes the file.
func (j *Joblog) Close(task.Stats) error { return cmp.Or(j.Consume(nil), j.wrap(j.file.Close())) }

// wrap adds context to err, which may be nil. It does not wrap EPIPE, which from a sink means that
// stdout is closed.
func (j *Joblog) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write joblog %s: %v", j.path, task.WithoutPath(err))
}

// mustLog reports whether a finished task has a result to log: it ran, could not be started, or was
// skipped, and no earlier run has logged it.
func mustLog(e *task.Event) bool {
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
	case task.Timeout, task.Cancelled, task.Lost, task.BadAnswer, task.NoOutput, task.Memory, task.TooMuch:
		code = -1
	}
	runtime := seconds(r.Duration().Round(time.Millisecond).Milliseconds())
	b = strconv.AppendUint(b, t.ID, 10)
	b = append(b, "\t"+cmp.Or(r.Host, ":")+"\t"+seconds(start.UnixMilli())+"\t"+mark+"          "[min(len(runtime), 10):]+runtime+"\t"...)
	for _, n := range [...]int64{t.InputSize(), task.Length(r.Stdout), int64(code), int64(r.Signal)} {
		b = append(strconv.AppendInt(b, n, 10), '\t')
	}
	return append(appendEscaped(b, t.CommandLine(t.ArgvIn(r))), '\n')
}

// seconds formats milliseconds in the format of rows.
func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }

// appendEscaped appends a command in the format of rows.
func appendEscaped(b []byte, s string) []byte {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		switch {
		case strings.ContainsRune("\\\t\n\r", r):
			b = append(b, '\\', `\tnr`[strings.IndexRune("\\\t\n\r", r)])
		case unicode.IsControl(r), c < "\xa0" && !utf8.ValidString(c): // some terminals take a single byte for a control character
			for i := range n {
				b = fmt.Appendf(b, `\x%02x`, c[i])
			}
		default:
			b = append(b, c...)
		}
	}
	return b
}
