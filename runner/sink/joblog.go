package sink

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"crew/runner/task"
)

const joblogHeader = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

// Joblog writes a row for each task that has ended, as it ends, in the nine
// tab-separated columns of GNU parallel's --joblog (parallel(1)), whose readers
// can read it.
//
// In a command a tab, newline, carriage return and backslash stand as \t, \n,
// \r and \\, so every task is one line and its command can be had back. Exitval
// is -1 where crew itself ended the task, and there is no row for one that
// never ran because the run ended before it.
type Joblog struct {
	path string
	file *os.File
	buf  []byte         // the rows of a batch
	had  map[string]int // how often the file has a row of an earlier result
}

// OpenJoblog makes the file, or empties it, and writes its header.
func OpenJoblog(path string) (*Joblog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open joblog: %w", err)
	}
	j := &Joblog{path: path, file: f}
	if _, err := f.WriteString(joblogHeader); err != nil {
		f.Close()
		return nil, j.fail(err)
	}
	return j, nil
}

// AppendJoblog is OpenJoblog for a run that goes on where another stopped. The
// rows of that one stay, except the last where a crash has cut it. Of earlier
// results that the run brings along, unlogged is how many may have a row: these
// rows are the last ones, and are not written twice.
func AppendJoblog(path string, unlogged int) (*Joblog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open joblog: %w", err)
	}
	j := &Joblog{path: path, file: f, had: map[string]int{}}
	if err := j.goOn(unlogged); err != nil {
		f.Close()
		return nil, j.fail(err)
	}
	return j, nil
}

// goOn makes the file one that ends with a whole row, and takes down the last
// rows. What cannot be read back, such as a pipe, is written to as it is.
func (j *Joblog) goOn(unlogged int) error {
	st, err := j.file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	if st.Size() == 0 {
		_, err := j.file.WriteString(joblogHeader)
		return err
	}
	rows := make([]string, max(unlogged, 1))
	n, whole := 0, int64(0)
	in := bufio.NewReaderSize(j.file, 64<<10)
	for {
		row, err := in.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		whole += int64(len(row))
		rows[n%len(rows)] = row
		n++
	}
	for _, row := range rows[:min(n, unlogged)] {
		j.had[withoutSeq(row)]++
	}
	return j.file.Truncate(whole)
}

// withoutSeq is a row without the number of its task, which may be another one in
// another run.
func withoutSeq(row string) string {
	_, rest, _ := strings.Cut(row, "\t")
	return rest
}

// Consume writes the rows of a batch with one write.
func (j *Joblog) Consume(events []task.Event) error {
	j.buf = j.buf[:0]
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || !ran(e) {
			continue
		}
		from := len(j.buf)
		j.buf = appendRow(j.buf, e)
		if e.Task.Done == nil {
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
	if _, err := j.file.Write(j.buf); err != nil {
		return j.fail(err)
	}
	return nil
}

// Close closes the file.
func (j *Joblog) Close(task.Stats) error {
	if err := j.file.Close(); err != nil {
		return j.fail(err)
	}
	return nil
}

func (j *Joblog) fail(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("write joblog %s: %w", j.path, err)
}

// ran says whether a finished task had its chance, so that there is a result to
// be logged: it ran, or it was tried and could not be started, and no earlier run
// has logged it.
func ran(e *task.Event) bool {
	return !e.Result.Logged && e.Result.Outcome != task.NotRun && (e.Result.Outcome != task.Cancelled || e.Attempt > 0)
}

func appendRow(b []byte, e *task.Event) []byte {
	t, r := e.Task, e.Result
	start := r.Start
	if start.IsZero() {
		start = e.At
	}
	b = strconv.AppendUint(b, t.ID, 10)
	b = append(b, "\t:\t"...)
	b = appendSeconds(b, start.UnixMilli(), 0)
	b = append(b, '\t')
	b = appendSeconds(b, r.Duration().Milliseconds(), 10)
	b = append(b, '\t')
	b = strconv.AppendInt(b, int64(len(t.Stdin)), 10)
	b = append(b, '\t')
	b = strconv.AppendInt(b, task.Length(r.Stdout), 10)
	b = append(b, '\t')
	b = strconv.AppendInt(b, int64(exitval(r)), 10)
	b = append(b, '\t')
	b = strconv.AppendInt(b, int64(r.Signal), 10)
	b = append(b, '\t')
	b = appendEscaped(b, commandLine(t, r))
	return append(b, '\n')
}

func exitval(r *task.Result) int {
	if r.Outcome == task.Timeout || r.Outcome == task.Cancelled {
		return -1
	}
	return r.Code
}

// appendSeconds appends milliseconds as seconds with three decimals, padded
// with blanks on the left to width.
func appendSeconds(b []byte, ms int64, width int) []byte {
	s := time.Duration(ms) * time.Millisecond
	var a [32]byte
	text := strconv.AppendFloat(a[:0], s.Seconds(), 'f', 3, 64)
	for range width - len(text) {
		b = append(b, ' ')
	}
	return append(b, text...)
}

var joblogEscapes = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

func appendEscaped(b []byte, s string) []byte {
	if !strings.ContainsAny(s, "\\\t\n\r") {
		return append(b, s...)
	}
	return append(b, joblogEscapes.Replace(s)...)
}
