package target

import (
	"encoding/binary"
	hash "hash/fnv"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// at sets the time of a file, which it makes if it is missing, to so many nanoseconds
// after some time.
func at(t *testing.T, name string, ns int64) {
	t.Helper()
	if _, err := os.Lstat(name); err != nil {
		put(t, name, "")
	}
	require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(1e9, ns)))
}

// check returns why a task has to run; "" if it need not.
func check(t *testing.T, cfg Config, tk *task.Task) string {
	t.Helper()
	res := New(cfg).Check(tk)
	require.Equal(t, tk.Makes.Why == "", res != nil)
	return tk.Makes.Why
}

func TestManyTargets(t *testing.T) {
	t.Chdir(t.TempDir())
	at(t, "in", 5)
	var names []string
	for i := range 3 * fewTargets {
		names = append(names, strconv.Itoa(i))
		at(t, names[i], int64(10+i))
	}
	tk := making(names...)
	tk.Makes.Reads = append([]string{"./0"}, append(names, "in")...)
	require.Equal(t, "", check(t, plain, tk), "none of them is an input")
	at(t, "in", 11)
	require.Equal(t, "0 is older than in", check(t, plain, tk))
}

func TestTimes(t *testing.T) {
	t.Chdir(t.TempDir())
	at(t, "in", 5)
	at(t, "in2", 6)
	require.NoError(t, os.Mkdir("dir", 0o777))
	at(t, "dir", 9)
	tk := making("out", "./out2")
	tk.Makes.Reads = []string{"in", "", "5", "a\x00b", "dir", "in2", "sub/../out", "nowhere/x"}
	why := func() string { return check(t, plain, tk) }
	require.Equal(t, "out is missing", why())
	at(t, "out", 6)
	require.Equal(t, "./out2 is missing", why())
	at(t, "out2", 7)
	require.Equal(t, "", why(), "equal times are up to date")
	at(t, "out", 5)
	require.Equal(t, "out is older than in2", why())
	at(t, "out", 7)
	at(t, "out2", 5)
	require.Equal(t, "./out2 is older than in2", why())
	at(t, "out2", 1e9)
	require.Equal(t, "", why())
	require.Equal(t, "--always-make", check(t, Config{Always: true}, tk))

	tk.Makes.Guessed = false
	require.Equal(t, "its input nowhere/x is missing", why())
	tk.Makes.Reads = []string{"in", "dir", "sub/../out"}
	require.Equal(t, "out is older than dir", why(), "what is named need not be a file")
	tk.Makes.Reads = []string{"out", "out2"}
	require.Equal(t, "", why(), "a target is no input")

	require.Equal(t, "a target has no name", check(t, plain, making("")))
	require.Equal(t, "out/x is missing", check(t, plain, making("out/x")))
	require.Equal(t, "a\x00b: invalid argument", check(t, plain, making("a\x00b")))
	require.Equal(t, "dir is a directory, which may not be whole", check(t, plain, making("dir")))
	require.Equal(t, "", check(t, journal, making("dir/")))
	require.Equal(t, "", check(t, Config{Dir: "dir/.."}, making("out")))
	require.Equal(t, "out is missing", check(t, Config{Dir: "dir"}, making("out")))
}

func TestResultOfCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	at(t, "out", 0)
	tk := making("out")
	for known, earlier := range map[task.Known]bool{task.NotKnown: false, task.KnownMade: true} {
		tk.Makes.Known, tk.Makes.Made.Inputs = known, fnvOffset
		res := New(journal).Check(tk)
		require.Equal(t, &task.Result{Task: tk, Outcome: task.Skipped, Start: res.Start, End: res.Start, Earlier: earlier, Logged: earlier}, res)
		require.WithinDuration(t, time.Now(), res.Start, time.Minute)
	}
	tk.Makes.Done = &task.Result{Outcome: task.OK}
	require.Same(t, tk.Makes.Done, New(journal).Check(tk))
}

// The journal tells what times do not.
func TestStamps(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a", "b"} {
		at(t, name, 5)
	}
	at(t, "out", 9)
	tk := making("out")
	m := tk.Makes
	m.Stamp.Command = 7
	made := func(reads ...string) {
		m.Reads = reads
		begin(t, New(journal), tk).end(task.Cancelled)
		m.Known, m.Made = task.KnownMade, m.Stamp
		require.Equal(t, "", check(t, journal, tk))
		require.Equal(t, m.Made.Inputs, m.Stamp.Inputs)
	}
	stale := func(what string) {
		require.Equal(t, "its inputs have changed", check(t, journal, tk), what)
	}
	made("a", "b", "c")
	require.Equal(t, uint64(0x44748ec62e391358), m.Made.Inputs, "it must stay the same: journals hold it")
	at(t, "b", 4)
	stale("an older file")
	made("a", "b", "c")
	put(t, "b", "x")
	at(t, "b", 4)
	stale("another size")
	made("a", "b", "c")
	at(t, "c", 5)
	stale("another file")
	made("a", "b", "c")
	require.NoError(t, os.Remove("a"))
	stale("a missing file")
	made("b", "c")
	m.Reads = []string{"c", "b"}
	stale("another order")
	m.Known = task.NotKnown
	begin(t, New(journal), tk).write("out", "x").ok()
	var st unix.Stat_t
	require.NoError(t, unix.Stat("out", &st))
	require.Equal(t, st.Ctim.Nano(), m.Stamp.Since)
	m.Known, m.Made = task.KnownMade, m.Stamp
	require.Equal(t, "", check(t, journal, tk))
	m.Made.Since++
	require.Equal(t, "out is as it was before it was last made", check(t, journal, tk), "as a power cut may leave it")
	m.Made.Since = 0
	m.Guessed, m.Reads = false, []string{"b", "a"}
	require.Equal(t, "its input a is missing", check(t, journal, tk))

	m.Reads, m.Stamp.Command = nil, 8
	require.Equal(t, "its command has changed", check(t, journal, tk))
	m.Known = task.KnownUnmade
	require.Equal(t, "it failed or was interrupted before", check(t, journal, tk))
	m.Known = task.NotKnown
	require.Equal(t, "", check(t, journal, tk))
	require.Equal(t, task.Stamp{Command: 8, Inputs: fnvOffset, Since: m.Stamp.Since}, m.Stamp)
}

// Whatever is written after an attempt has begun, or a check is over, alters the stamp, even
// if the clock of the file system has not ticked since.
func TestRacyInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	f := New(journal)
	for text, stamp := range map[string]func(tk *task.Task){
		"begin": func(tk *task.Task) { begin(t, f, tk).end(task.Cancelled) },
		"check": func(tk *task.Task) {
			put(t, "out", "")
			require.NotNil(t, f.Check(tk), tk.Makes.Why)
		},
	} {
		tk := making("out")
		tk.Makes.Reads = []string{"in"}
		put(t, "in", text)
		st, err := os.Stat("in")
		require.NoError(t, err)
		stamp(tk)
		require.GreaterOrEqual(t, time.Since(st.ModTime()), Racy, text)
		before := tk.Makes.Stamp
		put(t, "in", text)
		stamp(tk)
		require.NotEqual(t, before, tk.Makes.Stamp)
	}
}

func TestSettle(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "in", "")
	synctest.Test(t, func(t *testing.T) {
		f, tk := New(journal), making("out")
		tk.Makes.Reads = []string{"in"}
		write := func() { require.NoError(t, os.Chtimes("in", time.Time{}, time.Now())) }
		settle := func() (sum uint64, took time.Duration) {
			began := time.Now()
			return f.settle(tk, f.look(tk)).sum, time.Since(began)
		}
		write()
		quiet, took := settle()
		require.Equal(t, Racy, took)
		again, took := settle()
		require.Zero(t, took)
		require.Equal(t, quiet, again)

		// A file that is written meanwhile is not up to date.
		write()
		go func() { time.Sleep(Racy / 2); write() }()
		busy, took := settle()
		require.Equal(t, Racy, took)
		quiet, _ = settle()
		require.NotEqual(t, quiet, busy)
	})
}

func TestHash(t *testing.T) {
	h := hash.New64a()
	for _, s := range []string{"", "a", "\x00\xff and so on"} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, 1<<63+12345))
	}
	sum := uint64(fnvOffset)
	for _, s := range []string{"", "a", "\x00\xff and so on"} {
		sum = fnvNumber(fnv(sum, s), 1<<63+12345)
	}
	require.Equal(t, h.Sum64(), sum)
}
