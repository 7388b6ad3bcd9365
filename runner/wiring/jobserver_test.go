package wiring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/kernel"
)

// basket is a jobserver of the test's, whose tokens are different bytes.
type basket struct {
	*fault
	fd int // both ends
}

// newBasket prepares a crew whose parent says that it may use a jobserver with tokens.
func newBasket(t *testing.T, fifo bool, tokens string, args ...string) *basket {
	b := &basket{fault: newFault(t, args...)}
	name := filepath.Join(b.dir, "tokens")
	require.NoError(t, unix.Mkfifo(name, 0o600))
	// A descriptor of a FIFO that is open for both is as good as the two of a pipe.
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	_, err = file.WriteString(tokens)
	require.NoError(t, err)
	b.fd = int(file.Fd())
	auth := "fifo:" + name
	if !fifo {
		b.Cmd.ExtraFiles = []*os.File{file, file}
		auth = "3,4"
	}
	b.Cmd.Env = append(b.Cmd.Env, "MAKEFLAGS= -j8 --jobserver-auth="+auth)
	return b
}

// there is how many tokens nobody holds.
func (b *basket) there() int {
	n, err := kernel.Unread(b.fd)
	require.NoError(b.t, err)
	return n
}

// has waits until the tokens have come back, each as it was.
func (b *basket) has(tokens string) {
	b.t.Helper()
	crewtest.Until(b.t, func() bool { return b.there() >= len(tokens) }, "the tokens")
	all := make([]byte, len(tokens)+1)
	n, err := unix.Read(b.fd, all)
	require.NoError(b.t, err)
	slices.Sort(all[:n])
	require.Equal(b.t, tokens, string(all[:n]))
}

// most returns how many tasks ran at once that wrote + at the beginning and - at the end
// to a file.
func most(marks string) (most int) {
	n := 0
	for line := range strings.Lines(marks) {
		if n++; line[0] == '-' {
			n -= 2
		}
		most = max(most, n)
	}
	return most
}

// marked is a task that leaves marks for most.
const marked = `echo + >> marks; sleep 0.03; echo - >> marks`

func TestTokensComeBack(t *testing.T) {
	t.Parallel()
	long := []string{"-n0", "--kill-after", "1", `echo >> ready; exec sleep 600`, ":::", "1", "2", "3", "4", "5", "6", "7", "8"}
	for name, end := range map[string]func(b *basket){
		"interrupt": func(b *basket) {
			b.Send(syscall.SIGINT)
			b.await("stderr", "draining")
			b.Send(syscall.SIGINT)
			b.Dies(syscall.SIGINT)
		},
		"terminate": func(b *basket) { b.Send(syscall.SIGTERM); b.Dies(syscall.SIGTERM) },
		"kill":      func(b *basket) { b.Send(syscall.SIGKILL); b.Dies(syscall.SIGKILL) },
	} {
		for _, fifo := range []bool{true, false} {
			t.Run(fmt.Sprint(name, fifo), func(t *testing.T) {
				t.Parallel()
				b := newBasket(t, fifo, "+abc", long...)
				b.start().await("ready", strings.Repeat("\n", 5))
				require.Zero(t, b.there())
				end(b)
				b.has("+abc")
				b.Gone()
			})
		}
	}
}

// Where make has closed its pipe, the numbers can be anything's, and crew goes on, as it
// does with a FIFO that it cannot open.
func TestTokensOfAClosedPipe(t *testing.T) {
	t.Parallel()
	closed, other := "begin the recipe's line with + to share it", "to ignore it, add --jobserver=no"
	for flags, c := range map[string]struct{ option, hint string }{
		"--jobserver-auth=3,4": {"-j3", closed}, "--jobserver-auth=-2,-2": {"-k", closed},
		"--jobserver-auth=fifo:none": {"-k", other}, "--jobserver-auth=fifo:/dev/null": {"-j3", other},
	} {
		f := newFault(t, c.option, "-n0", marked, ":::", "1", "2", "3", "4", "5", "6")
		f.Cmd.Env = append(f.Cmd.Env, "MAKEFLAGS= -j8 "+flags)
		f.start().Exits(0)
		require.Regexp(t, `\Acrew: the jobserver of make cannot be used \([^\n]*\), so [^\n]*: `+regexp.QuoteMeta(c.hint)+`\n\z`, f.Stderr())
		require.LessOrEqual(t, most(f.read("marks")), map[string]int{"-j3": 3, "-k": 1}[c.option])
	}
}

// A run that says how many descriptors it needs can be done with as many.
func TestFaultFewDescriptorsForTokens(t *testing.T) {
	t.Parallel()
	for _, style := range []string{"fifo", "pipe"} {
		for n := "12"; ; {
			f := newFault(t, "--jobserver", "--jobserver-style="+style, "-j3", "-n0", marked, ":::", "1", "2", "3")
			f.under("ulimit -n " + n + `; exec "$@"`).start()
			status := f.Wait().ExitStatus()
			said := regexp.MustCompile(`needs (\d+) open files`).FindStringSubmatch(f.Stderr())
			if said == nil {
				require.Zero(t, status, f.Stderr())
				break
			}
			require.NotEqual(t, n, said[1])
			n = said[1]
		}
	}
}

// However many jobs make was given, the run has no more workers than with -j 0.
func TestJobsOfMake(t *testing.T) {
	for flags, jobs := range map[string]int{" -j7": 7, " -j99999999": mostJobs, " -j-7": 0} {
		var p pool
		p.findJobserver(parsed(t), flags+" --jobserver-auth=-2,-2")
		require.Equal(t, jobs, p.jobs, flags)
	}
}
