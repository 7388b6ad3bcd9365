package coproc

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

func numbers(n int) (records []string) {
	for i := range n {
		records = append(records, "record "+strconv.Itoa(i+1))
	}
	return records
}

// A worker that ends after an answer is not blamed for a record that it did not read, whether crew had
// written the record before or found the pipe closed.
func TestAnswersGoToTheirRecords(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"exec cat", `read -r x; echo "$x"`} {
		for _, window := range []int{1, 3, 64, 5000} {
			n := map[bool]int{true: 2000, false: 50}[script == "exec cat"]
			c := newFixture(t, Config{}, "sh", "-c", script)
			c.slots, c.window = 2, window
			c.add(numbers(n)...)
			c.run()
			for i, record := range numbers(n) {
				require.Equal(t, "ok|"+record+"\n|", c.show(t, uint64(i+1)))
			}
		}
	}
}

// A line on stderr that is completed only after an answer is not cut, unless there is no other record
// that it can go to.
func TestStderrIsGivenInWholeLines(t *testing.T) {
	l := loopOwing(t, 3)
	for _, text := range []string{"one\ntw", "o\nthree", " "} {
		l.w.giveStderr([]byte(text))
		l.w.takeAnswer([]byte("x\n"))
	}
	for i, want := range []string{"one\n", "two\n", "three "} {
		got, err := task.Tail(l.ended[i].Stderr, 100)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}
