package wiring

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
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
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/proc"
	"crew/runner/front/cli"
)

// statusRow is a row of testdata/statuses.jsonl: the end of a run, and the exit status for it.
type statusRow struct {
	Why      string
	Reason   string
	Ended    map[task.Outcome]int64
	InputEnd bool
	Halt     core.Halt
	Result   *struct { // the result that ended the run
		Outcome      task.Outcome
		Code, Signal int
		InVain       bool
	}
	Status int
}

func TestStatus(t *testing.T) {
	reasons := []string{"", "halted", "late", "bad command", "unread", "told"}
	crewtest.Examples(t, "testdata/statuses.jsonl", func(t *testing.T, row statusRow) {
		e := core.Ending{Reason: core.Reason(slices.Index(reasons, row.Reason)), Stats: task.Stats{InputEnd: row.InputEnd}}
		for o, n := range row.Ended {
			e.Stats.ByOutcome[o] = n
		}
		if r := row.Result; r != nil {
			e.Result = &task.Result{Outcome: r.Outcome, Code: r.Code, Signal: r.Signal}
			if r.InVain {
				e.Result.Err = proc.ErrNotExecutable
			}
		}
		require.Equal(t, row.Status, statusOf(e, cli.Failure{Halt: row.Halt}), row.Why)
	})
	require.Zero(t, taskStatus(&task.Result{Outcome: task.Skipped}), "of ctl add --wait")
	boom := errors.New("write stdout: no space left on device")
	require.Equal(t, 2, ending{err: misuse("a", "b")}.exit())
	require.Equal(t, 130, ending{signal: syscall.SIGINT, status: 123}.exitStatus())
	require.Equal(t, 1, ending{signal: syscall.SIGTERM, err: boom, status: 123}.exit())
}

func TestComplain(t *testing.T) {
	var b bytes.Buffer
	require.Equal(t, 2, printError(&b, fmt.Errorf("x: %w", misuse("what went wrong", "hint"))))
	require.Equal(t, 1, printError(&b, errors.New("open f: no such file")))
	require.Equal(t, 1, printError(brokenPipe{}, errors.New("nobody hears")))
	require.Equal(t, "crew: x: what went wrong: hint\ncrew: open f: no such file\n", b.String())
}

// brokenPipe cannot be written to.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestManPageHasTheStatuses compares the exit statuses of the man page with the constants of exit.go.
func TestManPageHasTheStatuses(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	require.NoError(t, err)
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && strings.HasPrefix(spec.Names[0].Name, "status") {
			value := spec.Values[0].(*ast.BasicLit).Value
			if spec.Names[0].Name == "statusSignal" {
				value += "+N"
			}
			want = append(want, value)
		}
		return true
	})
	_, section, _ := strings.Cut(manText(t, "crew.1"), ".Sh EXIT STATUS")
	section, _, _ = strings.Cut(section, ".Sh ")
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\.It (\S+)$`).FindAllStringSubmatch(section, -1) {
		got = append(got, m[1])
	}
	require.ElementsMatch(t, want, got)
}

// manText returns the text of the manual pages whose file names match a pattern.
func manText(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob("../../../man/" + pattern)
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		all.WriteString(crewtest.ReadFile(t, file))
	}
	return all.String()
}

// TestPrintsToNonblockingPipe checks that a pipe that became non-blocking after crew opened it takes everything.
func TestPrintsToNonblockingPipe(t *testing.T) {
	var fds [2]int
	require.NoError(t, unix.Pipe(fds[:]))
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	require.NoError(t, unix.SetNonblock(fds[1], true))
	go io.Copy(io.Discard, r)
	require.NoError(t, printText(w, strings.Repeat("x", 1<<20)))
	w.Close()
}
