package sink

import (
	"bufio"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
)

// Runtimes returns how many milliseconds each command took, at least 1, by the joblogs
// that the file at path holds one after another. The last row of a command counts; a row
// without a time counts only if there is no other, and one that is damaged does not. It is an error if a file with text in it holds no joblog.
func Runtimes(path string) (map[string]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	times := map[string]int64{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, math.MaxInt)
	text, log := false, false
	for in.Scan() {
		command, ms, ok := runtimeOf(in.Text())
		if ok && (ms > 0 || times[command] == 0) { // a task that was skipped took no time
			times[command] = max(1, ms)
		}
		text, log = true, log || ok || in.Text()+"\n" == joblogHeader
	}
	if in.Err() != nil {
		return nil, in.Err()
	}
	if text && !log {
		return nil, errors.New("it is no joblog")
	}
	return times, nil
}

// runtimeOf returns the command of a row and how long it took.
func runtimeOf(row string) (command string, ms int64, ok bool) {
	cells := strings.SplitN(row, "\t", strings.Count(joblogHeader, "\t")+1)
	if len(cells) <= strings.Count(joblogHeader, "\t") {
		return "", 0, false
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(cells[3]), 64)
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return "", 0, false
	}
	return unescaped(cells[len(cells)-1]), int64(seconds * 1000), true
}

// unescaped undoes appendEscaped. What is no escape stays.
func unescaped(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n := 0 // how many bytes after the backslash belong to the escape
		if i := strings.IndexByte(`\tnr`, (rest + " ")[0]); i >= 0 {
			b.WriteByte("\\\t\n\r"[i])
			n = 1
		} else if c, err := hex.DecodeString(rest[min(1, len(rest)):min(3, len(rest))]); err == nil && len(c) == 1 && rest[0] == 'x' {
			b.Write(c)
			n = 3
		} else {
			b.WriteByte('\\')
		}
		s = rest[n:]
	}
}
