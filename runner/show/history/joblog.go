package history

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"crew/runner/decide/task"
)

// columns are those of a joblog: Seq, Host, Starttime, JobRuntime, Send, Receive, Exitval,
// Signal and Command.
const columns = 9

// isHeader reports whether a row is the first one of a joblog.
func isHeader(row []byte) bool { return bytes.HasPrefix(row, []byte("Seq\tHost\tStarttime\t")) }

// parseRow returns the end of a task that a row of a joblog tells, and the mark of its run; 0
// for a row of parallel's. It reports false if the row is damaged.
func parseRow(row []byte, r *record) (mark int, ok bool) {
	cell := strings.SplitN(string(row), "\t", columns)
	if len(cell) < columns {
		return 0, false
	}
	seq, err := strconv.ParseUint(cell[0], 10, 64)
	start, startOK := parseDecimal(cell[2])
	took, tookOK := parseDecimal(cell[3])
	code, err2 := strconv.Atoi(cell[6])
	signal, err3 := strconv.Atoi(cell[7])
	if err != nil || err2 != nil || err3 != nil || !startOK || !tookOK || start+took < start {
		return 0, false
	}
	command := cell[8]
	if mark = task.JoblogMark(cell[3]); mark > 0 {
		command = unescaped(command)
	}
	r.Task, r.Duration, r.Command = seq, task.Seconds(took), task.Bytes(command)
	if cell[1] != ":" {
		r.Host = task.Bytes(cell[1])
	}
	if r.Outcome, r.Signal = outcomeOf(code, signal, start > 0), signal; r.Outcome.HasCode() {
		r.Exit = &code
	}
	if start > 0 {
		r.Start = time.Unix(0, int64(start))
	}
	return mark, true
}

// outcomeOf returns the outcome of a row. It cannot tell apart those that have the status
// -1, which are all that crew itself brought about and lost tasks: the commonest of them
// that is a failure is a timeout, and it is the only one that parallel writes so.
func outcomeOf(code, signal int, ran bool) task.Outcome {
	switch {
	case !ran && code == 0 && signal == 0:
		return task.Skipped
	case !ran:
		return task.NotRun
	case code < 0:
		return task.Timeout
	case signal != 0:
		return task.Signal
	case code != 0:
		return task.Exit
	}
	return task.OK
}

// parseDecimal parses a number of seconds, which may have blanks before it. ok is false for
// one that is negative or more nanoseconds than there are.
func parseDecimal(s string) (d time.Duration, ok bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	d = time.Duration(math.Round(n*1e6)) * time.Microsecond
	return d, err == nil && n >= 0 && n < float64(maxSeconds)
}

// unescaped undoes what crew does to a command in its joblog. A text that crew cannot have
// written stays as it is.
func unescaped(s string) string {
	var b strings.Builder
	for rest := s; ; {
		before, after, found := strings.Cut(rest, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		c, _, tail, err := strconv.UnquoteChar(rest[len(before):], 0)
		if err != nil || !strings.Contains(`\tnrx`, after[:1]) {
			return s
		}
		b.WriteByte(byte(c))
		rest = tail
	}
}
