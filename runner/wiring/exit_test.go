package wiring

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/proc"
	"crew/runner/task"
)

func TestStatus(t *testing.T) {
	exit7 := &task.Result{Outcome: task.Exit, Code: 7}
	failed := task.Stats{}
	failed.ByOutcome[task.Exit] = 3
	first, some := cli.Halt{When: "now", On: "fail", N: 1}, cli.Halt{When: "soon", On: "fail", N: 3}
	ends := func(r task.Result) core.Ending {
		return core.Ending{Reason: core.Halted, Result: &r, Stats: failed}
	}
	for _, c := range []struct {
		name string
		end  core.Ending
		halt cli.Halt
		want int
	}{
		{"all well", core.Ending{}, cli.Halt{}, 0},
		{"some failed", core.Ending{Stats: failed}, cli.Halt{}, 123},
		{"cannot execute", core.Ending{Reason: core.BadCommand, Result: &task.Result{Code: 126}, Stats: failed}, cli.Halt{}, 126},
		{"not found", core.Ending{Reason: core.BadCommand, Result: &task.Result{Code: 127}, Stats: failed}, first, 127},
		{"gone for long", core.Ending{Reason: core.BadCommand, Result: &task.Result{Code: 127, Err: proc.ErrInVain}}, cli.Halt{}, 1},
		{"interrupt", core.Ending{Reason: core.Told, Signal: 2, Stats: failed}, cli.Halt{}, 130},
		{"hangup", core.Ending{Reason: core.Told, Signal: 1}, cli.Halt{}, 129},
		{"terminate", core.Ending{Reason: core.Told, Signal: 15, Result: exit7}, first, 143},
		{"a command", core.Ending{Reason: core.Told, Stats: task.Stats{InputEnd: true}}, cli.Halt{}, 0},
		{"a command before the input's end", core.Ending{Reason: core.Told}, cli.Halt{}, 123},
		{"cancelled", core.Ending{Stats: task.Stats{InputEnd: true, ByOutcome: [task.Outcomes]int64{task.Cancelled: 1}}}, cli.Halt{}, 123},
		{"not run", core.Ending{Reason: core.Told, Stats: task.Stats{InputEnd: true, ByOutcome: [task.Outcomes]int64{task.NotRun: 1}}}, cli.Halt{}, 123},
		{"skipped", core.Ending{Stats: task.Stats{InputEnd: true, ByOutcome: [task.Outcomes]int64{task.Skipped: 1}}}, cli.Halt{}, 0},
		{"pipe", core.Ending{Reason: core.Unread, Signal: 2}, cli.Halt{}, 141},
		{"halt: exit", ends(*exit7), first, 7},
		{"halt: signal", ends(task.Result{Outcome: task.Signal, Signal: 9}), first, 137},
		{"halt: timeout", ends(task.Result{Outcome: task.Timeout, Signal: 15}), first, 124},
		{"halt: start", ends(task.Result{Outcome: task.StartFailed, Code: 126}), first, 126},
		{"halt: no output", ends(task.Result{Outcome: task.NoOutput}), first, 123},
		{"halt: ok", ends(task.Result{Outcome: task.OK}), cli.Halt{On: "success", N: 2}, 0},
		{"halt: cancelled", ends(task.Result{Outcome: task.Cancelled}), first, 123},
		{"halt: one of some", ends(*exit7), some, 123},
		{"halt: paused", core.Ending{Stats: failed}, cli.Halt{When: "pause", On: "fail", N: 1}, 123},
		{"halt: paused, all well", core.Ending{}, cli.Halt{When: "pause", On: "success", N: 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, statusOf(c.end, cli.Failure{Halt: c.halt})) })
	}
	require.Zero(t, taskStatus(&task.Result{Outcome: task.Skipped}), "of ctl add --wait")
	boom := errors.New("write stdout: no space left on device")
	require.Equal(t, 2, ending{err: misuse("a", "b")}.exit())
	require.Equal(t, 141, ending{status: 141}.exit())
	require.Equal(t, 1, ending{signal: syscall.SIGTERM, err: boom, status: 123}.exit())
}

func TestDiesWithStatusWhereIgnored(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "CREW_TEST_SIGNAL="+strconv.Itoa(int(syscall.SIGHUP)))
	require.Error(t, cmd.Run())
	require.Equal(t, 129, cmd.ProcessState.ExitCode())
}

func TestComplain(t *testing.T) {
	var b bytes.Buffer
	require.Equal(t, 2, complain(&b, fmt.Errorf("x: %w", misuse("what went wrong", "hint"))))
	require.Equal(t, 1, complain(&b, errors.New("open f: no such file")))
	require.Equal(t, 1, complain(brokenPipe{}, errors.New("nobody hears")))
	require.Equal(t, "crew: x: what went wrong: hint\ncrew: open f: no such file\n", b.String())
}

// brokenPipe cannot be written to.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// The exit statuses of the man page are the constants of exit.go.
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

// manText returns the manual pages whose files match a pattern.
func manText(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob("../../man/" + pattern)
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
