package history

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"crew/runner/decide/task"
)

// columns is the number of columns of a joblog: Seq, Host, Starttime, JobRuntime, Send, Receive,
// Exitval, Signal and Command.
const columns = 9

// isHeader reports whether a row is the header of a joblog.
func isHeader(row []byte) bool { return bytes.HasPrefix(row, []byte("Seq\tHost\tStarttime\t")) }

// parseRow parses a row of a joblog into r and returns the mark of its run, which is 0 for a row that
// GNU parallel wrote. ok is false if the row is damaged.
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

// outcomeOf returns the outcome of a row. Exit status -1 stands for lost tasks and for every outcome
// that crew itself caused. They are all read as a timeout: it is the most common failure of them, and
// GNU parallel writes -1 for nothing else.
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

// parseDecimal parses a number of seconds, which may have leading blanks. ok is false if it is
// negative or exceeds maxSeconds.
func parseDecimal(s string) (d time.Duration, ok bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	d = time.Duration(math.Round(n*1e6)) * time.Microsecond
	return d, err == nil && n >= 0 && n < float64(maxSeconds)
}

// unescaped reverses the escaping of a command in a joblog of crew. A text that crew cannot have
// written is returned unchanged.
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
