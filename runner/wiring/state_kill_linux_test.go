package wiring

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
)

// killWork is the shell script that the tasks run. An attempt's effect is one line
// in a file, written by one write(2).
const killWork = `echo $1 $CREW_ATTEMPT >> effects
case $1 in
quiet) exit ;;
retried) [ $CREW_ATTEMPT -ge $3 ] || { echo first try; echo first err >&2; exit 75; } ;;
esac
echo out $1
echo err $1 >&2
[ $1 != failing ] || { printf "%0$2d\n" 0; exit 3; }
`

// killRecords are the tasks' records. The last one cannot be an argument.
var killRecords = []string{"a", "quiet", "failing", "b", "retried", "c", "d", unstartable}

const unstartable = "e\x00f"

// killMode is a way to show results.
type killMode struct {
	name    string
	args    []string
	keeps   bool // results hold their outputs, even without --results
	streams bool // outputs are shown as they come
	order   bool // in input order
	json    bool
}

var killModes = []killMode{
	{name: "group", keeps: true},
	{name: "group -k", args: []string{"-k"}, keeps: true, order: true},
	{name: "line", args: []string{"--output=line"}, streams: true},
	{name: "line -k", args: []string{"--output=line", "-k"}, streams: true, order: true},
	{name: "raw", args: []string{"--output=raw"}, streams: true},
	{name: "none", args: []string{"--output=none"}},
	{name: "none --json", args: []string{"--output=none", "--json"}, json: true},
	{name: "json", args: []string{"--json"}, keeps: true, json: true},
	{name: "json -k", args: []string{"--json", "-k"}, keeps: true, order: true, json: true},
}

// killStory is a run that is disturbed, and what went before it.
type killStory struct {
	name    string
	before  [][]string // options of the runs before
	cut     string     // the last of these was killed at such a call, see callOf
	forget  bool       // then the joblog and the results tree were removed
	options []string   // of the run that is disturbed
}

var killStories = []killStory{
	{name: "first run"},
	{name: "second run", before: [][]string{nil}, cut: "pwrite /state/journal.jsonl"},
	{name: "replay", before: [][]string{nil}, options: []string{"--replay"}},
	{name: "new logs", before: [][]string{nil}, forget: true},
	{name: "reset", before: [][]string{nil}, options: []string{"--state-reset"}},
	{name: "compaction", before: [][]string{nil, {"--retry-failed"}, {"--retry-failed"}}},
	{name: "compaction of begun tasks", before: [][]string{nil, {"--retry-failed"}}, cut: "pwrite /state/output.0"},
}

// killPlan is a story in one mode.
type killPlan struct {
	story  killStory
	mode   killMode
	joblog bool
	tree   bool
	jobs   int
}

func killPlans() (plans []killPlan) {
	for _, story := range killStories {
		for _, mode := range killModes {
			for _, logs := range []int{0, 1, 2} {
				for _, jobs := range []int{1, 4} {
					p := killPlan{story: story, mode: mode, joblog: logs > 0, tree: logs > 1, jobs: jobs}
					if p.makesSense() {
						plans = append(plans, p)
					}
				}
			}
		}
	}
	return plans
}

func (p *killPlan) makesSense() bool {
	switch {
	case p.tree && p.mode.name == "raw":
		return false // crew refuses that
	case p.story.name == "replay":
		return p.joblog && !p.mode.streams // crew refuses that, too
	case p.story.name == "new logs":
		return p.joblog
	case strings.HasPrefix(p.story.name, "compaction"):
		return p.mode.keeps && p.tree
	}
	return true
}

func (p *killPlan) String() string {
	logs := "no logs"
	switch {
	case p.tree:
		logs = "joblog and results"
	case p.joblog:
		logs = "joblog"
	}
	return fmt.Sprintf("%s/%s/%s/j%d", p.story.name, p.mode.name, logs, p.jobs)
}

// runsAgain says whether a task may run again although its end is recorded: its
// lines waited for their turn, and were lost.
func (p *killPlan) runsAgain() bool { return p.mode.streams && p.mode.order && !p.tree }

// ends is how often a task ends if nothing is disturbed, at least and at most.
func (p *killPlan) ends(record string) (least, most int) {
	switch {
	case p.story.name == "compaction" && outcomeOf(record) != "ok":
		return len(p.story.before), len(p.story.before)
	case strings.HasPrefix(p.story.name, "compaction") && outcomeOf(record) != "ok":
		return 1, len(p.story.before)
	case p.story.name == "reset":
		return 1, 2
	}
	return 1, 1
}

// TestKilledAtEachCall kills crew at the system calls by which the journal, the
// joblog, the results tree and stdout are written, and resumes the run. Nothing
// may be lost, a task may run twice only if it ran at a kill, and a result may be
// shown twice only if the journal did not say yet that it had been shown.
//
// With CREW_SOAK set it goes through every call in every plan. To repeat
// one turn, name its plan and call: -run 'TestKilledAtEachCall/PLAN/^CALL$'.
func TestKilledAtEachCall(t *testing.T) {
	t.Parallel()
	disturbEach(t, disturbance{what: dies})
}

// TestInterruptedAtEachCall drains the run there. What it has shown is noted then, and no
// task runs twice.
func TestInterruptedAtEachCall(t *testing.T) {
	t.Parallel()
	disturbEach(t, disturbance{what: interrupted, once: true})
}

// TestFullDiskAtEachCall lets those calls fail with ENOSPC, either one of them or
// all from one on, and resumes the run when there is room again.
func TestFullDiskAtEachCall(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) { disturbEach(t, disturbance{what: hasNoRoom, once: true}) })
	t.Run("for good", func(t *testing.T) { disturbEach(t, disturbance{what: hasNoRoom}) })
}

// killSample are the plans of which the gate disturbs one run each, and at which call: the one
// that callOf finds.
var killSample = map[string]string{
	"first run/group -k/joblog and results/j4":                "fsync /state/output.0",
	"second run/json/joblog/j1":                               "pwrite /state/journal.jsonl",
	"new logs/line -k/joblog/j4":                              "fsync /log",
	"compaction/group/joblog and results/j4":                  "fsync /state/journal.jsonl",
	"compaction of begun tasks/json -k/joblog and results/j1": "pwrite /state/journal.jsonl",
}

// disturbEach disturbs a run at each of its calls in every plan, or without
// CREW_SOAK those of killSample.
func disturbEach(t *testing.T, d disturbance) {
	all := crewtest.Soaking()
	plans := slices.DeleteFunc(killPlans(), func(p killPlan) bool { return !all && killSample[p.String()] == "" })
	if d.what != dies && !all {
		plans = plans[:2]
	}
	var times atomic.Int64
	t.Cleanup(func() { t.Logf("disturbed %d runs in %d plans", times.Load(), len(plans)) })
	for _, p := range plans {
		t.Run(p.String(), func(t *testing.T) {
			k := &killed{killPlan: p, t: t, dir: filepath.Join(t.TempDir(), "work"), tries: 2}
			if d.what != dies {
				k.tries = 1 // a run that drains starts no retry
			}
			if all {
				k.prepare(d)
				times.Add(int64(k.sweep(d)))
				return
			}
			t.Parallel()
			k.prepare(d)
			d := d
			d.at = k.callOf(killSample[p.String()], d)
			times.Add(int64(k.turn(d)))
		})
	}
}

// disturbance says what happens to a run.
type disturbance struct {
	what verdict
	at   int  // at which call, counted from 1 among those that can end so; 0 for none
	once bool // at that call alone, not at all later ones
}

// judge returns a judge of calls, which counts in n those that can end so.
func (d disturbance) judge(n *int) func(fileCall) verdict {
	return func(c fileCall) verdict {
		shows := strings.HasPrefix(c.path, "/stdout.") || strings.HasPrefix(c.path, "/stderr.")
		if d.what == hasNoRoom && (shows || !c.grows) {
			return goesOn
		}
		*n++
		if *n == d.at || d.at > 0 && *n > d.at && !d.once {
			return d.what
		}
		return goesOn
	}
}

// killed carries out a plan. Each turn begins where the runs before have led to.
type killed struct {
	killPlan
	t     *testing.T
	dir   string    // crew's working directory
	tries int       // how many attempts the task that is retried needs
	begun []killRun // the runs before
	most  int       // about how many calls of the run can be disturbed

	runs []killRun // of this turn, behind those before
}

// kills is how many of the runs were killed.
func (k *killed) kills() (n int) {
	for _, r := range k.runs {
		if r.killed {
			n++
		}
	}
	return n
}

// prepare makes the runs before the one that is disturbed, and that one once
// without a disturbance, to count its calls.
func (k *killed) prepare(d disturbance) {
	t := k.t
	require.NoError(t, os.Mkdir(k.dir, 0o777))
	write := func(name, text string) {
		path := filepath.Join(k.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	write("work", killWork)
	if k.joblog {
		write("log", "what another command has left\n")
	}
	if k.tree {
		write("tree/3/stdout", "what another command has left\n")
		write("tree/3/result.json", "{}\n")
	}
	k.save()
	for i, options := range k.story.before {
		if i == len(k.story.before)-1 && k.story.cut != "" {
			k.save()
			k.run(disturbance{}, options...)
			at := k.callOf(k.story.cut, disturbance{what: dies})
			k.restore()
			k.run(disturbance{what: dies, at: at}, options...)
			break
		}
		k.run(disturbance{}, options...)
	}
	if k.story.forget {
		require.NoError(t, os.Remove(filepath.Join(k.dir, "log")))
		require.NoError(t, os.RemoveAll(filepath.Join(k.dir, "tree")))
	}
	k.save()
	d.at = 0
	k.most = k.run(d, k.story.options...)
}

// callOf is the number of a call in the latest run, among those that d can disturb: the first
// one of that text in its second half, or else the last one in its first half.
func (k *killed) callOf(text string, d disturbance) (at int) {
	calls, n := k.runs[len(k.runs)-1].calls, 0
	judge := d.judge(&n)
	for i, c := range calls {
		before := n
		if judge(c); n > before && c.String() == text {
			at = n
			if i > len(calls)/2 {
				break
			}
		}
	}
	require.Positive(k.t, at, "%s: %v", text, calls)
	return at
}

// save has turns begin with the directory as it is now.
func (k *killed) save() {
	require.NoError(k.t, os.RemoveAll(k.dir+".saved"))
	require.NoError(k.t, os.CopyFS(k.dir+".saved", os.DirFS(k.dir)))
	k.begun = slices.Clone(k.runs)
}

// restore begins a turn.
func (k *killed) restore() {
	require.NoError(k.t, os.RemoveAll(k.dir))
	require.NoError(k.t, os.CopyFS(k.dir, os.DirFS(k.dir+".saved")))
	k.runs = slices.Clone(k.begun)
}

// sweep disturbs a run at its first call, at its second and so on until a run has
// no such call, and returns how many runs were disturbed.
func (k *killed) sweep(d disturbance) (times int) {
	t := k.t
	for n, more := 1, true; more && n < 2*k.most; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			one := *k
			one.t = t
			d.at = n
			more = false
			times += one.turn(d)
			more = one.runs[len(k.begun)].cut
		})
	}
	t.Logf("%d calls, disturbed %d times", k.most, times)
	return times
}

// turn disturbs a run, kills the next one at some call in every other turn, and then
// lets a run come to its end. It returns how many runs were disturbed.
func (k *killed) turn(d disturbance) (times int) {
	k.restore()
	h := fnv.New64a()
	fmt.Fprint(h, k.String(), d)
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	again := random.IntN(2) * (1 + random.IntN(k.most))
	defer func() {
		if k.t.Failed() && len(k.runs) > len(k.begun) {
			calls := k.runs[len(k.begun)].calls
			k.t.Logf("disturbed at call %d (of %v), then killed at call %d", d.at, calls, again)
		}
	}()
	k.run(d, k.story.options...)
	if again > 0 {
		k.run(disturbance{what: dies, at: again})
	}
	k.run(disturbance{})
	k.check()
	k.idle()
	if k.mode.keeps && k.mode.order {
		k.replay()
	}
	for _, r := range k.runs[len(k.begun):] {
		if r.cut {
			times++
		}
	}
	return times
}

// run runs crew, and returns how many of its calls could be disturbed.
func (k *killed) run(d disturbance, options ...string) (n int) {
	t := k.t
	t.Helper()
	args := append([]string{"-q", "-j" + strconv.Itoa(k.jobs), "--state=state"}, k.mode.args...)
	args = append(args, "--retries=1", "--retry-delay=1ms", "--retry-on=exit:75")
	if k.joblog {
		args = append(args, "--joblog=log")
	}
	if k.tree {
		args = append(args, "--results=tree")
	}
	args = append(args, options...)
	cmd := crew(append(args, "/bin/sh", "work", "{}", strconv.Itoa(k.zeros()), strconv.Itoa(k.tries))...)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	cmd.Dir, cmd.Stdin = k.dir, strings.NewReader(strings.Join(killRecords, "\n")+"\n")
	create := func(stream string) *os.File {
		f, err := os.Create(filepath.Join(k.dir, fmt.Sprintf("%s.%d", stream, len(k.runs))))
		require.NoError(t, err)
		return f
	}
	out, errs := create("stdout"), create("stderr")
	defer out.Close()
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	p := startJudged(t, cmd, d.judge(&n))
	p.wait(t)
	r := killRun{killed: p.killed, cut: d.at > 0 && n >= d.at, calls: p.calls, repeats: len(options) > 0, noted: k.noted()}
	complaint := k.read(filepath.Base(errs.Name()))
	switch status := cmd.ProcessState.ExitCode(); {
	case r.killed:
	case r.cut && d.what == interrupted:
		if status != 123 { // it came too late
			require.Equal(t, unix.SIGINT, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), complaint)
		}
		complaint = crewLine.ReplaceAllString(complaint, "")
	case r.cut && status == 1:
		r.failed = true
		require.Regexp(t, `(?m)^crew: .*no space left on device`, complaint, "crew has to say what went wrong")
		complaint = crewLine.ReplaceAllString(complaint, "")
	default:
		require.Equal(t, 123, status, complaint)
	}
	r.out, r.err = k.units(k.read(filepath.Base(out.Name())), k.out), k.units(complaint, k.err)
	k.runs = append(k.runs, r)
	return n
}

// crewLine is a line of crew's own on stderr.
var crewLine = regexp.MustCompile(`(?m)^crew: .*\n`)
