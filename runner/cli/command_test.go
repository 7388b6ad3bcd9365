package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

// said returns what a command line says, its words split at blanks.
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
	o, err := Parse(append([]string{"crew"}, args...), env)
	if err == nil && o.Print != "" {
		return nil, errors.New("it prints something: " + o.Print)
	}
	return o, err
}

func TestDefaults(t *testing.T) {
	o, err := said(t, "-j3 gzip -9 {}", "")
	require.NoError(t, err)
	require.Equal(t, Input{Delim: "\n"}, o.Input)
	require.Equal(t, Command{Words: []string{"gzip", "-9", "{}"}, Replace: "{}", MaxArgs: 1}, o.Command)
	require.Equal(t, Pool{Jobs: "3"}, o.Pool)
	require.Equal(t, Sched{Policy: "fifo"}, o.Sched)
	require.Equal(t, Failure{
		RetryDelay: time.Second, RetryMaxDelay: time.Minute,
		RetryOn: RetryOn{Any: true}, Limit: Limit{KillAfter: 5 * time.Second},
	}, o.Failure)
	require.Equal(t, Output{Mode: "group"}, o.Output)
	require.Equal(t, Show{Progress: "auto", CI: "auto"}, o.Show)

	o, err = said(t, "", "")
	require.NoError(t, err)
	require.Empty(t, o.Command.Words)
}

func TestOptions(t *testing.T) {
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
		{"-X cat", func(o *Options) any { return [2]any{o.Command.MaxArgs, o.Command.MaxChars} }, [2]any{0, 128 << 10}},
		{"-X -n2 cat", func(o *Options) any { return [2]any{o.Command.MaxArgs, o.Command.MaxChars} }, [2]any{2, 0}},
		{"-n2 -s99 cat", func(o *Options) any { return [2]any{o.Command.MaxArgs, o.Command.MaxChars} }, [2]any{2, 99}},
		{"-I @ cat", func(o *Options) any { return o.Command.Replace }, "@"},
		{"--stdin cat", func(o *Options) any { return o.Command.Stdin }, true},
		{"--shell /bin/bash cat", func(o *Options) any { return o.Command.Shell }, "/bin/bash"},

		{"--worker x --worker-protocol nul --worker-start eager --worker-max 3 --worker-age 1m", func(o *Options) any { return o.Coproc },
			Coproc{Words: "x", Protocol: task.NULProtocol, Window: 1, Eager: true, Max: 3, Age: time.Minute}},
		{"--delay .5 cat", func(o *Options) any { return o.Pool.Delay }, 500 * time.Millisecond},
		{"--workdir /tmp --nice -5 cat", func(o *Options) any { return [2]any{o.Pool.Workdir, o.Pool.Nice} }, [2]any{"/tmp", -5}},
		{"--sched keyed --key {1} cat", func(o *Options) any { return o.Sched }, Sched{Policy: "keyed", Key: "{1}"}},
		{"--sched fair --key {1} --cost {2} cat", func(o *Options) any { return o.Sched }, Sched{Policy: "fair", Key: "{1}", Cost: "{2}"}},
		{"--order shortest-first --cost {} cat", func(o *Options) any { return o.Sched.Order }, "shortest-first"},
		{"--order longest-first --order input cat", func(o *Options) any { return o.Sched.Order }, ""},
		{"--sched keyed --input json", func(o *Options) any { return o.Sched }, Sched{Policy: "keyed"}},
		{"--per-key 2 --key {} cat", func(o *Options) any { return o.Sched.PerKey }, 2},
		{"--cap gpu=2 --cap db:a,b --needs {2} --weight 2 --priority {1} --rate 5/m --key-rate 1/1.5,burst=3 --key {} cat", func(o *Options) any { return o.Terms },
			Terms{Priority: "{1}", Weight: "2", Needs: "{2}", Caps: []task.Cap{{Name: "db", Units: []string{"a", "b"}}, {Name: "gpu", Units: []string{"0", "1"}}},
				Rate: task.Rate{N: 5, Period: time.Minute, Burst: 1}, KeyRate: task.Rate{N: 1, Period: 1500 * time.Millisecond, Burst: 3}}},
		{"worker --engine e --offers mem=2,gpu:0,b,disk:x --offers db=1 cat", func(o *Options) any { return o.Terms.Caps },
			[]task.Cap{{Name: "db", Units: []string{"0"}}, {Name: "disk", Units: []string{"x"}}, {Name: "gpu", Units: []string{"0", "b"}}, {Name: "mem", Units: []string{"0", "1"}}}},
		{"--engine e --cap db=1 --needs gpu,{2}:3,mem:{3},db cat", func(o *Options) any { return o.AllCaps() },
			[]task.Cap{{Name: "db", Units: []string{"0"}}, {Name: "gpu"}, {Name: "mem"}}},
		{"--input json --cap gpu=1", func(o *Options) any { return len(o.Terms.Caps) }, 1},
		{"ctl add --priority -5 x", func(o *Options) any { return *o.Ctl.Priority }, -5},
		{"--sched least-busy --cost {2} cat", func(o *Options) any { return o.Sched.Cost }, "{2}"},
		{"--sched topic --key {} --topics a=2,*=3 cat", func(o *Options) any { return o.Sched.Topics }, sched.Topics{List: []sched.Topic{{Key: sched.Hash("a"), Workers: 2}}, Rest: 3}},

		{"--retries 2 --retry-delay 2m cat", func(o *Options) any { return o.Failure.RetryMaxDelay }, 2 * time.Minute},
		{"--retries 2 --retry-max-delay .5 cat", func(o *Options) any { return o.Failure.RetryDelay }, 500 * time.Millisecond},
		{"--retries 2 --retry-on exit:75,signal cat", func(o *Options) any { return o.Failure.RetryOn },
			RetryOn{Exit: []ExitRange{{75, 75}}, Outcomes: []task.Outcome{task.Signal}}},
		{"--timeout 10 --kill-after 0 cat", func(o *Options) any { return [2]time.Duration{o.Failure.Timeout, o.Failure.KillAfter} },
			[2]time.Duration{10 * time.Second, 0}},
		{"--fail-fast cat", func(o *Options) any { return o.Failure.Halt }, Halt{When: "now", On: "fail", N: 1}},
		{"--halt pause,fail=3 cat", func(o *Options) any { return o.Failure.Halt }, Halt{When: "pause", On: "fail", N: 3}},
		{"--halt soon,done=10% cat", func(o *Options) any { return o.Failure.Halt }, Halt{When: "soon", On: "done", N: 10, Percent: true}},

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
		{"-- help", func(o *Options) any { return o.Command.Words }, []string{"help"}},
		{"-- ctl log 5", func(o *Options) any { return [2]any{o.Do, o.Command.Words} }, [2]any{DoRun, []string{"ctl", "log", "5"}}},
		{"run x", func(o *Options) any { return [2]any{o.Do, o.Command.Words} }, [2]any{DoRun, []string{"run", "x"}}},
		{"serve -n0 cat", func(o *Options) any { return o.Do }, DoServe},

		{"ctl log 3 --json", func(o *Options) any { return [2]any{o.Do, o.Ctl} }, [2]any{"ctl log", Ctl{Tasks: []uint64{3}, JSON: true}}},
		{"ctl log -f --run x 3", func(o *Options) any { return o.Ctl }, Ctl{Run: "x", Tasks: []uint64{3}, Follow: true}},
		{"ctl resize -1 x", func(o *Options) any { return o.Ctl }, Ctl{Run: "x", N: -1, Relative: true}},
		{"ctl add --to q -0 -", func(o *Options) any { return o.Ctl }, Ctl{Run: "q", Null: true, Stdin: true}},
		{"ctl add -- -", func(o *Options) any { return o.Ctl }, Ctl{Work: []string{"-"}}},
		{"ctl add ls -l", func(o *Options) any { return o.Ctl }, Ctl{Work: []string{"ls", "-l"}}},
		{"ctl add --to engine:hub/fast x", func(o *Options) any { return o.Ctl }, Ctl{Run: "engine:hub/fast", Work: []string{"x"}, URL: "hub", Queue: "fast"}},
		{"engine init --max-output 1M", func(o *Options) any { return o.Hub }, Hub{MaxOutput: 1 << 20}},
		{"engine attach r -k --engine u", func(o *Options) any { return [3]any{o.Ctl.Run, o.Output.KeepOrder, o.Engine.URL} }, [3]any{"r", true, "u"}},
		{"state --json d", func(o *Options) any { return [3]any{o.Do, o.State.Dir, o.Ctl.JSON} }, [3]any{"state", "d", true}},
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
	require.Equal(t, "2", o.Pool.Jobs)
	require.Equal(t, "group", o.Output.Mode)
	require.True(t, o.Output.KeepOrder)
	require.Equal(t, "{1} {2}", o.Sched.Key)

	for opts, want := range map[string]string{
		"-k 'x":             "CREW_OPTS cannot be split into words: a ' in it is not closed",
		`-k \`:              "CREW_OPTS cannot be split into words: it ends in a backslash",
		"-k echo":           `CREW_OPTS holds "echo": it may hold options only`,
		"-k --":             `CREW_OPTS holds "--": it may hold options only`,
		"::: a":             `CREW_OPTS holds ":::": it may hold options only`,
		"--ke":              "CREW_OPTS: unknown option --ke: did you mean --key, --key-rate, --keep-order or --keep?",
		"-j":                "CREW_OPTS: -j needs a value: write -j N",
		"-VV":               "CREW_OPTS holds -V: no run would ever start: write it on the command line",
		"--help":            "CREW_OPTS holds --help: no run would ever start: write it on the command line",
		"--completion bash": "CREW_OPTS holds --completion: no run would ever start: write it on the command line",
		"--nice x":          `bad value "x" for --nice (from CREW_OPTS): write a whole number from -20 to 19`,
	} {
		_, err := said(t, "-k cat", opts)
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(*UsageError))
	}
}

func TestAnswers(t *testing.T) {
	for line, want := range map[string]string{
		"--help":           "Usage: crew ",
		"-h":               "Usage: crew ",
		"--version":        "crew ",
		"-V":               "crew ",
		"-k --help":        "Usage: crew ",
		"-0 -d x --help":   "Usage: crew ",
		"serve -k -h":      "Usage: crew serve ",
		"ctl log x --help": "Usage: crew ctl log ",
		"help engine":      "Usage: crew engine ",
		"--completion=zsh": "#compdef crew",
	} {
		o, err := Parse(append([]string{"crew"}, strings.Fields(line)...), func(string) string { return "" })
		require.NoError(t, err, line)
		require.True(t, strings.HasPrefix(o.Print, want), line)
	}
	o, err := Parse(nil, func(string) string { return "" })
	require.NoError(t, err)
	require.Empty(t, o.Print)
}

func TestAgain(t *testing.T) {
	for line, want := range map[string]string{
		"-0kj4 -a f --csv gzip -9 {}":          "ERR",
		"-kj4 -a f -d x gzip -9 {}":            "crew -k -j 4 OPT gzip -9 '{}' VAL",
		"--header -C , -u --retries=2 cat":     "crew --header --output raw --retries 2 OPT cat VAL",
		"-- state x":                           "crew OPT -- state x VAL",
		"--halt now,fail=1 -- -x ::: a b":      "crew --halt now,fail=1 OPT -- -x VAL",
		"--input json -E end --tag-string {1}": "crew --input json --tag-string '{1}' OPT VAL",
	} {
		o, err := said(t, line, "--bar")
		if want == "ERR" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, line)
		require.Equal(t, want, Rerun{Options: o}.Line("OPT", "VAL"))
	}
	o, err := said(t, "-k cat", "")
	require.NoError(t, err)
	require.Equal(t, "crew -k cat", Rerun{Options: o}.Line("", ""))

	// CREW_OPTS is set aside where it holds what the other records do without.
	for _, c := range []struct{ env, line, want string }{
		{"-a f -j2", "cat", "CREW_OPTS= crew -j 2 cat ::: a"},
		{"--state d --state-reset", "-k cat", "CREW_OPTS= crew --state d -k --retry-failed cat ::: a"},
		{"--state d", "-k cat", "crew -k --retry-failed cat ::: a"},
	} {
		o, err := said(t, c.line, c.env)
		require.NoError(t, err)
		require.Equal(t, c.want, Rerun{Options: o}.Line("", "::: a"))
	}
}

func TestIdentity(t *testing.T) {
	for line, want := range map[string]string{
		"-j4 -k gzip -9 {}": "crew gzip -9",
		"cp {} {}":          "crew cp {} {}",
		"--stdin cat {}":    "crew --stdin cat {}",
		"--shell bash -C , -n2 --header --output line -j 3 ls -l":  "crew -C , --header -n 2 --shell bash ls -l",
		"-n3 -n4 --workdir /tmp --retries 3 --state d --replay ls": "crew -n 4 --workdir /tmp ls",
		"-j2 --makes a --stdout-to b --workdir /tmp --makes c ls":  "crew --makes a --stdout-to b --workdir /tmp --makes c",
		"serve --makes a --workdir /tmp ls":                        "crew serve --makes a --workdir /tmp ls",
		"--times t -I @ --shard 1/2 ls @":                          "crew --shard 1/2 --times t -I @ ls",
		"--order longest-first --times t ls":                       "crew ls",
	} {
		o, err := said(t, line, "")
		require.NoError(t, err)
		require.Equal(t, want, strings.ReplaceAll(o.Identity(), "'", ""))
	}
}
