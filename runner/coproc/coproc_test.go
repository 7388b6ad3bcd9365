package coproc

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func numbers(n int) (records []string) {
	for i := range n {
		records = append(records, "record "+strconv.Itoa(i+1))
	}
	return records
}

func TestAnswersGoToTheirRecords(t *testing.T) {
	for _, protocol := range []task.Protocol{task.LineProtocol, task.NULProtocol} {
		end := map[task.Protocol]string{task.LineProtocol: "\n", task.NULProtocol: "\x00"}[protocol]
		for _, window := range []int{1, 3, 64, 5000} {
			c := newCrowd(t, Config{}, "cat")
			c.slots, c.window, c.protocol = 2, window, protocol
			c.add(numbers(2000)...)
			c.run()
			for id := uint64(1); id <= 2000; id++ {
				require.Equal(t, "ok|record "+strconv.Itoa(int(id))+end+"|", c.show(t, id))
			}
			require.Empty(t, c.back)
			require.Empty(t, c.notices)
		}
	}
}

func TestLongRecordsAndAnswers(t *testing.T) {
	c := newCrowd(t, Config{}, "cat")
	c.window = 4
	for i := range 12 {
		c.add(strings.Repeat(strconv.Itoa(i%10), 1+i*200_000))
	}
	c.run()
	for i := range 12 {
		require.Equal(t, "ok|"+strings.Repeat(strconv.Itoa(i%10), 1+i*200_000)+"\n|", c.show(t, uint64(i+1)))
	}
}

func TestStderrBelongsToTheOldestRecord(t *testing.T) {
	c := newCrowd(t, Config{}, "sh", "-c", `while read x; do echo "about $x" >&2; echo "$CREW_WORKER: $x"; done; echo bye >&2`)
	c.add("a", "b")
	c.run()
	require.Equal(t, "ok|1: a\n|about a\n", c.show(t, 1))
	require.Equal(t, "ok|1: b\n|about b\n", c.show(t, 2))
	require.Equal(t, "bye\n", c.stray.String())
}

// A worker that ends after an answer is to blame for no record that it did not read,
// whether crew had written that one before or found the pipe closed.
func TestUnreadRecordsAreNobodysFault(t *testing.T) {
	for _, window := range []int{1, 4, 50} {
		c := newCrowd(t, Config{}, "sh", "-c", `read -r x; echo "$x"`)
		c.slots, c.window = 2, window
		c.add(numbers(50)...)
		c.run()
		for id := uint64(1); id <= 50; id++ {
			require.Equal(t, "ok|record "+strconv.Itoa(int(id))+"\n|", c.show(t, id))
		}
	}
}

// A line on stderr that is complete only after an answer is not cut, unless no other
// record is there that it can go to.
func TestStderrIsGivenInWholeLines(t *testing.T) {
	l := lines(t, 3)
	for _, text := range []string{"one\ntw", "o\nthree", " "} {
		l.w.giveStderr([]byte(text))
		l.w.answer([]byte("x\n"))
	}
	for i, want := range []string{"one\n", "two\n", "three "} {
		got, err := l.ended[i].Stderr.Tail(100)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}
