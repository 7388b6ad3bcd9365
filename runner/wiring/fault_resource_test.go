package wiring

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/kernel"
)

// counted is n records, a line each.
func counted(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i+1) + "\n")
	}
	return b.String()
}

// tiny is a script for under that has crew run with a full disk at full/: a
// file system of 64 KiB that nobody else sees.
const tiny = `exec unshare --mount /bin/sh -c 'mount -t tmpfs -o size=64k tiny "$PWD/full" && exec "$@"' sh "$@"`

// TestFaultADiskIsFull: one clear line, status 1, what runs may finish, and
// nothing that was written is cut without a word.
func TestFaultADiskIsFull(t *testing.T) {
	t.Parallel()
	const full = "no space left on device"
	for _, c := range []struct {
		name, under string
		args        []string
		says        string
	}{
		{"stdout", `exec "$@" >/dev/full`, []string{"echo"}, "write stdout: " + full},
		{"stdout by line", `exec "$@" >/dev/full`, []string{"--line-buffer", "echo"}, "write stdout: " + full},
		{"stdout in order", `exec "$@" >/dev/full`, []string{"-k", "--json", "echo"}, "write stdout: " + full},
		{"joblog", tiny, []string{"-n1", "--joblog", "full/log", "true", strings.Repeat("x", 2000)}, "write joblog full/log: " + full},
		{"results", tiny, []string{"-n0", "--results", "full/res", blocks(7)}, "write results: write full/res/"},
		{"journal", tiny, []string{"-n1", "--state", "full/run", "--output", "none", "true", strings.Repeat("x", 2000)},
			full + "; what ended after that runs again in the next run"},
		{"spill", `export TMPDIR=full;` + tiny, []string{"-n0", "-k", blocks(9000)}, "its output is cut: keep output in full: " + full},
		{"a limit on the stdout file", `ulimit -f 8; exec "$@"`, []string{"echo", strings.Repeat("x", 500)}, "write stdout: file too large"},
		{"a limit on the joblog", `ulimit -f 8; exec "$@" >/dev/null`, []string{"--joblog", "log", "true", strings.Repeat("x", 500)},
			"write joblog log: file too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(c.under, "mount") {
				needRoot(t)
			}
			f := newFault(t, append([]string{"-j2"}, c.args...)...).under(c.under)
			require.NoError(t, os.Mkdir(filepath.Join(f.dir, "full"), 0o777))
			f.Cmd.Stdin = strings.NewReader(counted(1000))
			f.start().Exits(1)
			lines := strings.Split(strings.TrimSpace(f.Stderr()), "\n")
			last := lines[len(lines)-1]
			require.True(t, strings.HasPrefix(last, "crew: "), last)
			require.Contains(t, last, c.says)
			f.Gone()
		})
	}
}

// TestFaultADiskIsFullOfAnswers: a record whose answer is cut is not done.
func TestFaultADiskIsFullOfAnswers(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFault(t, "-j2", "--joblog", "log", "--worker", "while read x; do "+blocks(20<<10)+"; echo; done").under("export TMPDIR=full;" + tiny)
	require.NoError(t, os.Mkdir(filepath.Join(f.dir, "full"), 0o777))
	f.Cmd.Stdin = strings.NewReader(counted(1000))
	f.start().Exits(1)
	require.Regexp(t, `\ncrew: task \d+: its output is cut: keep output in full: no space left on device: set TMPDIR to another directory\n\z`, f.Stderr())
	done := regexp.MustCompile(`(?m)^\d+\t.*\t0\t0\twhile `).FindAllString(f.read("log"), -1)
	require.Len(t, done, strings.Count(f.Stdout(), strings.Repeat("x", 20<<20)))
	f.Gone()
}

// TestFaultFewDescriptorsAndNobodyReads: that a line about it cannot be said for
// now keeps no task from starting.
func TestFaultFewDescriptorsAndNobodyReads(t *testing.T) {
	t.Parallel()
	f := newFault(t, "-n0", "-j12", "[ $CREW_SEQ = 1 ] && exec sh talk; read x < gate; echo >> ran").under(`ulimit -n 32; exec "$@"`).gate()
	f.write("talk", blocks(200), 0o666)
	in := f.input()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	f.Cmd.Stdout = w
	f.start()
	require.NoError(t, w.Close())
	_, err = io.WriteString(in, counted(1))
	require.NoError(t, err)
	crewtest.Until(f.t, func() bool {
		n, err := kernel.Unread(int(r.Fd()))
		return err == nil && n == 64<<10
	}, "a full pipe")
	_, err = io.WriteString(in, counted(40))
	require.NoError(t, err)
	require.NoError(t, in.Close())
	f.open()
	f.await("ran", strings.Repeat("\n", 40))
	_, err = io.Copy(io.Discard, r)
	require.NoError(t, err)
	f.Exits(0)
}

// TestFaultFewProcesses: the limit counts threads, and a Go program that cannot
// have one more dies.
func TestFaultFewProcesses(t *testing.T) {
	t.Parallel()
	needRoot(t) // to become somebody with a limit of his own
	uid := uint32(70000 + os.Getpid()%10000)
	cases := []struct{ limit, jobs, tasks int }{{16, 30, 60}, {32, 30, 60}, {550, 600, 600}, {561, 600, 600}, {600, 600, 600}, {601, 600, 600}}
	if !crewtest.Soaking() {
		cases = cases[:1]
	}
	for i, c := range cases {
		limit := fmt.Sprintf(`exec bash -c 'ulimit -u %d; exec "$@"' sh "$@"`, c.limit)
		f := newFault(t, fmt.Sprintf("-j%d", c.jobs), "read x < gate; echo {}").under(limit).gate()
		f.asUser(uid + uint32(i))
		f.Cmd.Stdin = strings.NewReader(counted(c.tasks))
		f.start().await("stderr", ": resource temporarily unavailable\n")
		f.open()
		f.Exits(0)
		require.ElementsMatch(t, strings.Fields(counted(c.tasks)), strings.Fields(f.Stdout()))
		require.Regexp(t, `(?m)^crew: task \d+ waits to start: .*resource temporarily unavailable$`, f.Stderr())
	}

	f := newFault(t, "true", ":::", "a").under(`exec bash -c 'ulimit -u 8; exec "$@"' sh "$@"`)
	f.asUser(uid + 9)
	f.start().Exits(1)
	require.Equal(t, "crew: no run is possible with 8 processes and threads: raise the limit with ulimit -u, or that of the container (pids.max)\n", f.Stderr())
}

// asUser has crew run as somebody else, who can read it and its directory.
func (f *fault) asUser(uid uint32) {
	exe, err := os.ReadFile(os.Args[0])
	require.NoError(f.t, err)
	f.write("crew", string(exe), 0o755)
	for i, w := range f.Cmd.Args {
		if w == os.Args[0] {
			f.Cmd.Args[i] = filepath.Join(f.dir, "crew")
		}
	}
	for dir := f.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(f.t, os.Chmod(dir, 0o755))
	}
	f.Cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}
