package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/core"
	"crew/runner/task"
	"crew/sched"
)

// said is what a command line says, its words split at blanks.
func said(t *testing.T, line, crewOpts string) (*Options, error) {
	t.Helper()
	return saidArgs(strings.Fields(line), crewOpts)
}

func saidArgs(args []string, crewOpts string) (*Options, error) {
	env := func(name string) string {
		if name == "CREW_OPTS" {
			return crewOpts
		}
		return ""
	}
	var out, errs bytes.Buffer
	o, done, err := parse(append([]string{"crew"}, args...), env, &out, &errs)
	if done || out.Len() > 0 || errs.Len() > 0 {
		return nil, errors.New("it printed something: " + out.String() + errs.String())
	}
	return o, err
}

func TestDefaults(t *testing.T) {
	o, err := said(t, "-j3 gzip -9 {}", "")
	require.NoError(t, err)
	require.Equal(t, Input{Delim: "\n"}, o.Input)
	require.Equal(t, Command{Words: []string{"gzip", "-9", "{}"}, Replace: "{}", MaxArgs: 1}, o.Command)
	require.Equal(t, Pool{Jobs: 3, Buffer: 64}, o.Pool)
	require.Equal(t, Sched{Policy: "fifo"}, o.Sched)
	require.Equal(t, Failure{
		RetryDelay: time.Second, RetryMaxDelay: time.Minute,
		RetryOn: RetryOn{Any: true}, KillAfter: 5 * time.Second,
	}, o.Failure)
	require.Equal(t, Output{Mode: "group"}, o.Output)
	require.Equal(t, Show{Progress: "auto", CI: "auto"}, o.Show)

	o, err = said(t, "", "")
	require.NoError(t, err)
	require.Equal(t, hereProcessors(), o.Pool.Jobs)
	require.Empty(t, o.Command.Words)
}

func TestOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs")
	require.NoError(t, os.WriteFile(file, []byte("7\n"), 0o600))
	for _, c := range []struct {
		line string
		want func(o *Options) any
		is   any
	}{
		{"-a f --arg-file - cat", func(o *Options) any { return o.Input.Files }, []string{"f", "-"}},
		{"-a a,b cat", func(o *Options) any { return o.Input.Files }, []string{"a,b"}},
		{"-0 cat", func(o *Options) any { return o.Input.Delim }, "\x00"},
		{`-d \t cat`, func(o *Options) any { return o.Input.Delim }, "\t"},
		{"-C , cat", func(o *Options) any { return o.Input.Colsep.String() }, ","},
		{"--csv --header cat", func(o *Options) any { return o.Input.CSV && o.Input.Header }, true},
		{"--input json", func(o *Options) any { return o.Input.JSON }, true},
		{"--input json --input lines cat", func(o *Options) any { return o.Input.JSON }, false},
		{"-r cat", func(o *Options) any { return o.Input.SkipEmpty }, true},
		{"-E end cat", func(o *Options) any { return o.Input.EOF }, "end"},
		{"cat ::: a", func(o *Options) any { return o.Input.Groups }, []Group{{Words: []string{"a"}}}},
		{"-- cat ::: a", func(o *Options) any { return o.Command.Words }, []string{"cat"}},
		{"::: true false", func(o *Options) any { return o.Input.Groups[0].Words }, []string{"true", "false"}},
		{"-a f cat :::+ a", func(o *Options) any { return o.Input.Groups[0].Linked }, true},
		{"--input json ::: {}", func(o *Options) any { return len(o.Input.Groups) }, 1},
		{"-C , --header cat ::: a,b 1,2", func(o *Options) any { return o.Input.Header }, true},

		{"-n5 cat", func(o *Options) any { return o.Command.MaxArgs }, 5},
		{"-n0 cat", func(o *Options) any { return [2]any{o.Command.MaxArgs, o.Command.NoArgs} }, [2]any{1, true}},
		{"-n0 -n2 cat", func(o *Options) any { return [2]any{o.Command.MaxArgs, o.Command.NoArgs} }, [2]any{2, false}},
		{"-s99 cat", func(o *Options) any { return [2]any{o.Command.MaxArgs, o.Command.MaxChars} }, [2]any{0, 99}},
		{"-n2 -s99 cat", func(o *Options) any { return [2]any{o.Command.MaxArgs, o.Command.MaxChars} }, [2]any{2, 99}},
		{"-I @ cat", func(o *Options) any { return o.Command.Replace }, "@"},
		{"--stdin cat", func(o *Options) any { return o.Command.Stdin }, true},
		{"--shell /bin/bash cat", func(o *Options) any { return o.Command.Shell }, "/bin/bash"},

		{"-j " + file + " cat", func(o *Options) any { return [2]any{o.Pool.Jobs, o.Pool.JobsFile} }, [2]any{7, file}},
		{"-j2 -j9 cat", func(o *Options) any { return o.Pool.Jobs }, 9},
		{"-j100 cat", func(o *Options) any { return o.Pool.Buffer }, 200},
		{"-j4 --worker cat", func(o *Options) any { return [2]any{o.Pool.Buffer, o.Pool.BufferBytes} }, [2]any{512, 16 << 20}},
		{"-j4 --worker-window 256 --worker cat", func(o *Options) any { return o.Pool.Buffer }, 2048},
		{"--worker x --worker-protocol nul --worker-start eager --worker-max 3 --worker-age 1m", func(o *Options) any { return o.Coproc },
			Coproc{Words: "x", Protocol: task.NULProtocol, Window: 1, Eager: true, Max: 3, Age: time.Minute}},
		{"--buffer 3 cat", func(o *Options) any { return o.Pool.Buffer }, 3},
		{"-j2 cat", func(o *Options) any { return o.Pool.Buffer }, 64},
		{"-j100 cat", func(o *Options) any { return o.Pool.Buffer }, 200},
		{"-j2 -n 5 cat", func(o *Options) any { return o.Pool.Buffer }, 16},
		{"-j2 -s 500 cat", func(o *Options) any { return o.Pool.Buffer }, 16},
		{"--delay .5 cat", func(o *Options) any { return o.Pool.Delay }, 500 * time.Millisecond},
		{"--workdir /tmp --nice -5 cat", func(o *Options) any { return [2]any{o.Pool.Workdir, o.Pool.Nice} }, [2]any{"/tmp", -5}},
		{"--sched keyed --key {1} cat", func(o *Options) any { return o.Sched }, Sched{Policy: "keyed", Key: "{1}"}},
		{"--sched keyed --input json", func(o *Options) any { return o.Sched }, Sched{Policy: "keyed"}},
		{"--per-key 2 --key {} cat", func(o *Options) any { return o.Sched.PerKey }, 2},
		{"--sched least-busy --cost {2} cat", func(o *Options) any { return o.Sched.Cost }, "{2}"},
		{"--sched topic --key {} --topics a=2,*=3 cat", func(o *Options) any { return o.Sched.Topics }, sched.Topics{List: []sched.Topic{{Key: sched.Hash("a"), Workers: 2}}, Rest: 3}},
		{"--sched topic --key {} --topics a=2,*=3 cat", func(o *Options) any { return o.Pool.Jobs }, 5},
		{"--sched topic --key {} --topics auto -j4 cat", func(o *Options) any { return [2]any{o.Sched.Topics.Auto, o.Pool.Jobs} }, [2]any{true, 4}},

		{"--retries 2 --retry-delay 2m cat", func(o *Options) any { return o.Failure.RetryMaxDelay }, 2 * time.Minute},
		{"--retries 2 --retry-on exit:75,signal cat", func(o *Options) any { return o.Failure.RetryOn },
			RetryOn{Exit: []ExitRange{{75, 75}}, Outcomes: []task.Outcome{task.Signal}}},
		{"--timeout 10 --kill-after 0 cat", func(o *Options) any { return [2]time.Duration{o.Failure.Timeout, o.Failure.KillAfter} },
			[2]time.Duration{10 * time.Second, 0}},
		{"--fail-fast cat", func(o *Options) any { return o.Failure.Halt }, core.Halt{When: core.Now, On: core.OnFail, N: 1}},
		{"--halt soon,done=10% cat", func(o *Options) any { return o.Failure.Halt }, core.Halt{When: core.Soon, On: core.OnDone, N: 10, Percent: true}},

		{"-k --output line cat", func(o *Options) any { return o.Output }, Output{Mode: "line", KeepOrder: true}},
		{"-u --output group -k cat", func(o *Options) any { return o.Output }, Output{Mode: "group", KeepOrder: true}},
		{"--tag --line-buffer cat", func(o *Options) any { return o.Output }, Output{Mode: "line", Tag: true}},
		{"--tag-string x cat", func(o *Options) any { return o.Output.TagString }, "x"},
		{"--json --output none --results r --joblog l cat", func(o *Options) any { return o.Output },
			Output{Mode: "none", JSON: true, Results: "r", Joblog: "l"}},
		{"--bar -qt --dry-run cat", func(o *Options) any { return o.Show },
			Show{Progress: "always", CI: "auto", Quiet: true, Verbose: true, DryRun: true}},
		{"-- state DIR", func(o *Options) any { return o.Command.Words }, []string{"state", "DIR"}},
		{"-j1 ctl", func(o *Options) any { return o.Command.Words }, []string{"ctl"}},
		{"help", func(o *Options) any { return o.Command.Words }, []string{"help"}},
		{"version --version", func(o *Options) any { return o.Command.Words }, []string{"version", "--version"}},
	} {
		t.Run(c.line, func(t *testing.T) {
			o, err := said(t, c.line, "")
			require.NoError(t, err)
			require.Equal(t, c.is, c.want(o))
		})
	}
}

func TestCrewOpts(t *testing.T) {
	o, err := said(t, "-j2 --output group cat", `-kj8 --output line --key '{1} {2}'`)
	require.NoError(t, err)
	require.Equal(t, 2, o.Pool.Jobs)
	require.Equal(t, "group", o.Output.Mode)
	require.True(t, o.Output.KeepOrder)
	require.Equal(t, "{1} {2}", o.Sched.Key)

	// What does not go with the command line is left out.
	o, err = said(t, "-k cat", "-u --retries 3")
	require.NoError(t, err)
	require.Equal(t, "group", o.Output.Mode)
	require.Equal(t, 3, o.Failure.Retries)

	for opts, want := range map[string]string{
		"-k 'x":    "CREW_OPTS cannot be split into words: a ' in it is not closed",
		`-k \`:     "CREW_OPTS cannot be split into words: it ends in a backslash",
		"-k echo":  `CREW_OPTS holds "echo": it may hold options only`,
		"-k --":    `CREW_OPTS holds "--": it may hold options only`,
		"::: a":    `CREW_OPTS holds ":::": it may hold options only`,
		"--ke":     "CREW_OPTS: unknown option --ke: did you mean --key, --keep-order or --keep?",
		"-j":       "CREW_OPTS: -j needs a value: write -j N",
		"-0 -d,":   `-0 (from CREW_OPTS) and -d (from CREW_OPTS) do not go together: -0 is -d '\0': keep one of them`,
		"--nice x": `bad value "x" for --nice (from CREW_OPTS): write a whole number from -20 to 19`,
	} {
		_, err := said(t, "-k cat", opts)
		require.EqualError(t, err, want)
		require.True(t, isUsage(err))
	}
}

// brokenPipe cannot be written to.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAnswers(t *testing.T) {
	none := func(string) string { return "" }
	for arg, want := range map[string]string{
		"--help":           "Usage: crew ",
		"-h":               "Usage: crew ",
		"--version":        "crew ",
		"-V":               "crew ",
		"-k --help":        "Usage: crew ",
		"-0 -d x --help":   "Usage: crew ",
		"--completion=zsh": "#compdef crew",
	} {
		var out bytes.Buffer
		o, done, err := parse(append([]string{"crew"}, strings.Fields(arg)...), none, &out, io.Discard)
		require.NoError(t, err, arg)
		require.True(t, done, arg)
		require.Nil(t, o, arg)
		require.True(t, strings.HasPrefix(out.String(), want), arg)
	}
	_, _, err := parse([]string{"crew", "--help"}, none, brokenPipe{}, io.Discard)
	require.EqualError(t, err, "write to stdout: broken pipe")
	require.False(t, isUsage(err))

	o, done, err := parse(nil, none, io.Discard, io.Discard)
	require.NoError(t, err)
	require.False(t, done)
	require.NotNil(t, o)
}

func TestAgain(t *testing.T) {
	for line, want := range map[string]string{
		"-0kj4 -a f --csv gzip -9 {}":          "ERR",
		"-kj4 -a f -d x gzip -9 {}":            "crew -k -j 4 OPT gzip -9 '{}' VAL",
		"--header -C , -u --retries=2 cat":     "crew --header --output raw --retries 2 OPT cat VAL",
		"-- state x":                           "crew OPT -- state x VAL",
		"--halt now,fail=1 -- -x ::: a b":      "crew --halt now,fail=1 OPT -- -x VAL",
		"--input json -E end --tag-string {1}": "crew --tag-string '{1}' OPT VAL",
	} {
		o, err := said(t, line, "--bar")
		if want == "ERR" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, line)
		require.Equal(t, want, o.again("OPT", "VAL"))
	}
	o, err := said(t, "-k cat", "")
	require.NoError(t, err)
	require.Equal(t, "crew -k cat", o.again("", ""))

	// CREW_OPTS is set aside where it would mean something else to other
	// records, or to a line without what cuts them.
	for _, c := range []struct{ env, line, want string }{
		{"--bar -k", "-u cat", "CREW_OPTS= crew --progress always --output raw cat ::: a"},
		{"--input json -k", "-d x cat", "CREW_OPTS= crew -k cat ::: a"},
		{"--input json -k", "--input lines cat", "CREW_OPTS= crew -k cat ::: a"},
		{"-a f -j2", "cat", "CREW_OPTS= crew -j 2 cat ::: a"},
		{"--state d --state-reset", "-k cat", "CREW_OPTS= crew --state d -k --retry-failed cat ::: a"},
		{"--state d", "-k cat", "crew -k --retry-failed cat ::: a"},
		{"-n2 -k", "", "CREW_OPTS= crew -k ::: a"},
	} {
		o, err := said(t, c.line, c.env)
		require.NoError(t, err)
		require.Equal(t, c.want, o.again("", "::: a"))
	}
}
