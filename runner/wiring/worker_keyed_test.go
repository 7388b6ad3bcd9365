package wiring

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// workerVariable makes the test binary a persistent worker that counts records by their
// keys.
const workerVariable = "CREW_TEST_WORKER"

// In the keyed test, one record of this many ends its worker once, and half as many do
// so each time.
const keyedCrash = 997

// keyedWorker counts records for each key. A record is "KEY NUMBER"; the answer is the
// record with the slot, the process, by a name that no later one gets, and the count. The
// file saw gets what was read. It returns the exit status.
func keyedWorker() int {
	saw, err := os.OpenFile("saw", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		panic(err)
	}
	counts := map[string]int{}
	who := os.Getenv("CREW_WORKER") + " " + strconv.FormatInt(time.Now().UnixNano(), 36) + "." + strconv.Itoa(os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		key, number, _ := strings.Cut(in.Text(), " ")
		_, _ = saw.WriteString(in.Text() + " " + who + "\n")
		if n, _ := strconv.Atoi(number); n%keyedCrash == 0 {
			if n%(2*keyedCrash) == 0 {
				return 3
			}
			if os.Mkdir("crash."+number, 0o777) == nil {
				return fail(n / keyedCrash / 2)
			}
		}
		counts[key]++
		if _, err := fmt.Println(in.Text(), who, counts[key]); err != nil {
			return 1
		}
	}
	return 0
}

// fail is one of the ways in which a worker fails at a record.
func fail(way int) int {
	switch way % 3 {
	case 0: // killed
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case 1: // after half an answer
		_, _ = os.Stdout.WriteString("k")
	default: // with a child that holds its pipes
		child := exec.Command("sleep", "600")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		_ = child.Start()
	}
	return 3
}

// TestWorkerKeyed sends rows of many keys to workers that hold state for their keys,
// while workers fail and the pool is resized. Workers see the rows of a key in order
// and count each once, results come in order, and a key keeps its slot but for resizes.
// CREW_SOAK makes it a million rows.
func TestWorkerKeyed(t *testing.T) {
	t.Parallel()
	rows, keys := 2500, 100
	if crewtest.Soaking() {
		rows, keys = 1_000_000, 5000
	}
	k := newKeyed(t, rows, keys)
	part := rows / 5
	k.phase(part, 0)
	k.workers(4)
	k.resize("6")
	k.phase(2*part, 0)
	k.phase(3*part, syscall.SIGUSR2)
	k.workers(5)
	k.phase(4*part, syscall.SIGUSR1)
	k.workers(6)
	k.resize("2")
	k.phase(rows, 0)
	require.NoError(t, k.in.Close())
	_, err := k.out.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	k.Exits(123)
	k.checkSeen()
	logged := k.rows()
	require.Len(t, logged, rows, "a status for each record")
	for n := range rows {
		want := 0
		if k.poison(n) {
			want = 3
		}
		require.Equal(t, want, logged[n+1], "row %d", n)
	}
	k.Gone()
}

// keyed is a run of that test.
type keyed struct {
	*fault
	in   io.WriteCloser
	out  *bufio.Reader
	size int // rows in all
	keys int
	sent int

	last  map[string]int    // the last row of each key that was answered
	slot  map[string]string // where it was
	count map[string]int    // of each process and key
}

func newKeyed(t *testing.T, rows, keys int) *keyed {
	k := &keyed{size: rows, keys: keys, last: map[string]int{}, slot: map[string]string{}, count: map[string]int{}}
	k.fault = newFault(t, "-j4", "--name", "keyed", "--worker", os.Args[0], "--worker-window", "16",
		"--sched", "keyed", "--key", "{1}", "-C", " ", "--retries", "2", "--retry-delay", "1ms", "--joblog", "log", "-q")
	k.Cmd.Env = append(k.Cmd.Env, workerVariable+"=keyed", "XDG_RUNTIME_DIR="+crewtest.ShortDir(t))
	k.in = k.input()
	out, w, err := os.Pipe()
	require.NoError(t, err)
	k.Cmd.Stdout = w
	k.out = bufio.NewReaderSize(out, 1<<20)
	k.start()
	require.NoError(t, w.Close())
	t.Cleanup(func() { out.Close() })
	return k
}

// poison says whether a row ends every worker that gets it.
func (k *keyed) poison(row int) bool { return row%(2*keyedCrash) == 0 }

// ctl runs crew ctl and returns what it prints.
func (k *keyed) ctl(words ...string) (string, error) {
	cmd := crew(append([]string{"ctl"}, words...)...)
	cmd.Env = k.Cmd.Env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// resize resizes the pool while nothing runs.
func (k *keyed) resize(n string) {
	out, err := k.ctl("resize", n, "keyed")
	require.NoError(k.t, err, "%s", out)
}

// workers waits until the pool has n workers.
func (k *keyed) workers(n int) {
	says := regexp.MustCompile(fmt.Sprintf(`(?m)^%d workers?,`, n))
	crewtest.Until(k.t, func() bool {
		out, _ := k.ctl("status", "keyed")
		return says.MatchString(out)
	}, "%d workers", n)
}

// phase sends all rows before the given one and reads their answers. If resize is not 0,
// it sends crew that signal in the middle, and a key may move once.
func (k *keyed) phase(to int, resize syscall.Signal) {
	t := k.t
	from := k.sent
	k.sent = to
	go func() {
		w := bufio.NewWriterSize(k.in, 64<<10)
		for n := from; n < to; n++ {
			fmt.Fprintf(w, "k%d %d\n", n*7919%k.keys, n)
		}
		_ = w.Flush() // an error shows as missing answers
	}()
	wanted := 0
	for n := from; n < to; n++ {
		if !k.poison(n) {
			wanted++
		}
	}
	moved := map[string]bool{}
	was := map[string]string{} // in this phase
	for i := range wanted {
		if resize != 0 && i == wanted/3 {
			k.Send(resize)
		}
		var key, slot, process string
		var n, count int
		line, err := k.out.ReadString('\n')
		require.NoError(t, err, "%d answers are missing\n%s", wanted-i, k.Stderr())
		_, err = fmt.Sscan(line, &key, &n, &slot, &process, &count)
		require.NoError(t, err, line)
		require.Equal(t, fmt.Sprintf("k%d", n*7919%k.keys), key)
		last, later := k.last[key]
		require.True(t, !later || n > last, "row %d of %s comes after %d", n, key, last)
		if before := was[key]; before != "" && before != slot {
			require.True(t, resize != 0 && !moved[key], "%s moves from slot %s to %s", key, before, slot)
			moved[key] = true
		}
		k.last[key], was[key] = n, slot
		k.count[process+key]++
		require.Equal(t, k.count[process+key], count, "process %s has counted a row of %s more than once, or lost it", process, key)
	}
}

// checkSeen looks whether workers saw the rows of each key in order, and none again but
// after a crash.
func (k *keyed) checkSeen() {
	t := k.t
	f, err := os.Open(filepath.Join(k.dir, "saw"))
	require.NoError(t, err)
	defer f.Close()
	last := map[string]int{}
	seen := 0
	in := bufio.NewScanner(f)
	for in.Scan() {
		var key string
		var n int
		_, err := fmt.Sscan(in.Text(), &key, &n)
		require.NoError(t, err)
		before, later := last[key]
		switch {
		case !later || n > before:
			seen++
		default:
			require.Equal(t, before, n, "a worker saw row %d of %s after %d", n, key, before)
			require.Zero(t, n%keyedCrash, "row %d of %s was seen twice", n, key)
		}
		last[key] = n
	}
	require.NoError(t, in.Err())
	require.Equal(t, k.size, seen)
}

// rows are the tasks in the joblog and their exit values, 128+N after signal N.
func (f *fault) rows() map[int]int {
	t := f.t
	rows := map[int]int{}
	lines := strings.Split(f.read("log"), "\n")
	require.Empty(t, lines[len(lines)-1], "the last row is cut")
	for _, l := range lines[1:max(1, len(lines)-1)] {
		cell := strings.Split(l, "\t")
		require.Len(t, cell, 9, l)
		id, err := strconv.Atoi(cell[0])
		require.NoError(t, err)
		_, twice := rows[id]
		require.False(t, twice, "task %d is logged twice", id)
		rows[id], err = strconv.Atoi(cell[6])
		require.NoError(t, err)
		signal, err := strconv.Atoi(cell[7])
		require.NoError(t, err)
		if rows[id] == 0 && signal != 0 {
			rows[id] = 128 + signal
		}
	}
	return rows
}
