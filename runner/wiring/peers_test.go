package wiring

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestPeers runs crew beside GNU parallel and findutils' xargs and holds their
// results against each other. What is not wanted to be the same stands, with
// its reason, in differences.
func TestPeers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a hundred and fifty starts of GNU parallel take a while")
	}
	b := newBench(t)
	for _, group := range []struct {
		name  string
		needs string
		run   func(*testing.T, *bench)
		long  bool // only in the long form
	}{
		{"paths", "parallel", comparePaths, true},
		{"quoting", "parallel", compareQuoting, true},
		{"delimiters of xargs", "xargs", compareDelimitersXargs, false},
		{"delimiters of parallel", "parallel", compareDelimitersParallel, true},
		{"records", "parallel", compareRecords, true},
		{"batches of parallel", "parallel", compareBatchesParallel, true},
		{"replacing as xargs", "xargs", compareReplaceXargs, false},
		{"products", "parallel", compareProducts, true},
		{"sources", "parallel", compareSources, true},
		{"columns", "parallel", compareColumns, true},
		{"headers", "parallel", compareHeaders, true},
		{"order", "parallel", compareOrder, true},
		{"tags", "parallel", compareTags, false},
		{"stdin", "parallel", compareStdin, true},
		{"dry run", "parallel", compareDryRun, true},
		{"verbose", "xargs", compareVerbose, false},
		{"environment", "parallel", compareEnvironment, false},
		{"halt", "parallel", compareHalt, true},
		{"statuses of xargs", "xargs", compareStatusXargs, false},
		{"statuses of parallel", "parallel", compareStatusParallel, false},
		{"differences", "parallel", compareDifferences, true},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(group.needs); err != nil {
				t.Skipf("no %s here: it comes with the packages of .ci/run", group.needs)
			}
			if group.long && !b.long {
				t.Skip("it takes long: set CREW_SOAK")
			}
			group.run(t, b)
		})
	}
}

// bench is where the programs run side by side. It does not change.
type bench struct {
	long bool     // CREW_SOAK is set, as in .ci/run: parallel takes a second for three starts
	dir  string   // HOME of all programs
	env  []string // what they all get
	crew string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	// A binary without the race detector starts in a tenth of the time.
	program := crewtest.Build(t, "crew")
	dir := t.TempDir()
	b := &bench{long: crewtest.Soaking(), dir: dir, crew: program}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C", "PARALLEL_SHELL=/bin/sh"}
	return b
}

// seen holds what a person sees of a run.
type seen struct {
	stdout, stderr string
	status         int
}

// most returns how many of n like trials to make.
func (b *bench) most(n int) int {
	if b.long {
		return n
	}
	return (n + 3) / 4
}

// run runs crew, parallel or xargs.
func (b *bench) run(t *testing.T, input, program string, args ...string) seen {
	t.Helper()
	switch program {
	case "crew":
		program = b.crew
	case "parallel":
		args = append([]string{"--will-cite"}, args...)
	}
	cmd := exec.Command(program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.Env, cmd.Dir = b.env, b.dir
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); !exited {
		require.NoError(t, err)
	}
	return seen{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ok is the stdout of a run that must succeed.
func (b *bench) ok(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	got := b.run(t, input, program, args...)
	require.Zero(t, got.status, "%s %q says %s", program, args, got.stderr)
	return got.stdout
}

// file makes a file in a directory of the test's own, and names it.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// mark is the word that every command of show begins with, so that commands
// can be told apart. No record is like it.
const mark = "TASK"

// showWords is a command that prints its arguments, each with a NUL behind it,
// and showScript is the same for a shell; words follow.
var showWords = []string{"printf", `%s\0`, mark}

const showScript = `printf '%s\0' ` + mark + " "

// argvs takes what show commands printed apart.
func argvs(t *testing.T, printed string) [][]string {
	t.Helper()
	list := [][]string{}
	for word := range strings.SplitSeq(strings.TrimSuffix(printed, "\x00"), "\x00") {
		switch {
		case word == mark:
			list = append(list, []string{})
		case len(list) == 0:
			require.Empty(t, printed)
		default:
			list[len(list)-1] = append(list[len(list)-1], word)
		}
	}
	return list
}

// trial is a command under several programs. Its options are those of all.
type trial struct {
	input    string
	options  []string
	crew     []string // more options
	parallel []string
	xargs    []string
	words    string // behind show, with blanks between; plain text to a shell
	values   []string
}

// alike wants the same commands twice, and shows the first that differs.
func alike(t *testing.T, want, got [][]string, where string, tr trial) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "command %d %s: options %q %q, words %s", i+1, where, tr.options, tr.crew, tr.words)
	}
	require.Len(t, got, len(want), "%s: %q", where, tr)
}

// inCrew returns what tasks of crew get, which must be the same as words and as a
// script.
func (b *bench) inCrew(t *testing.T, tr trial) [][]string {
	t.Helper()
	options := slices.Concat([]string{"-k"}, tr.options, tr.crew)
	words := argvs(t, b.ok(t, tr.input, "crew", slices.Concat(options, showWords, strings.Fields(tr.words), tr.values)...))
	script := argvs(t, b.ok(t, tr.input, "crew", slices.Concat(options, []string{showScript + tr.words}, tr.values)...))
	alike(t, words, script, "as words and as a script", tr)
	return words
}

func (b *bench) inParallel(t *testing.T, tr trial) [][]string {
	t.Helper()
	return argvs(t, b.ok(t, tr.input, "parallel",
		slices.Concat([]string{"-k"}, tr.options, tr.parallel, []string{showScript + tr.words}, tr.values)...))
}

// asParallel holds crew against parallel.
func (b *bench) asParallel(t *testing.T, tr trial) [][]string {
	t.Helper()
	want := b.inParallel(t, tr)
	alike(t, want, b.inCrew(t, tr), "in parallel and in crew", tr)
	return want
}

// asXargs holds crew against xargs, which is never run without a record: it
// would run a command all the same.
func (b *bench) asXargs(t *testing.T, tr trial) {
	t.Helper()
	want := argvs(t, b.ok(t, tr.input, "xargs", slices.Concat([]string{"-r"}, tr.options, tr.xargs, showWords, strings.Fields(tr.words))...))
	got := argvs(t, b.ok(t, tr.input, "crew", slices.Concat([]string{"-k"}, tr.options, tr.crew, showWords, strings.Fields(tr.words))...))
	alike(t, want, got, "in xargs and in crew", tr)
}
