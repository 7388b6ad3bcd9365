package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// chaosWays are ways to disturb a run, in each of which the last signal may end it.
var chaosWays = [][]syscall.Signal{
	{syscall.SIGINT},
	{syscall.SIGINT, syscall.SIGINT},
	{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT},
	{syscall.SIGTERM},
	{syscall.SIGHUP},
	{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGUSR2, syscall.SIGUSR1},
	{syscall.SIGTSTP, syscall.SIGCONT},
	{syscall.SIGKILL},
	{syscall.SIGTSTP, syscall.SIGKILL},
}

// TestWorkerChaos runs records through persistent workers that break their promises at
// random. Each record has a status and, unless it is poison, its own answer once on
// stdout; no attempt fails but for a fault that the record met; and nothing is left.
// Half of the seeds are disturbed from outside as well. The same six rounds run each
// time; CREW_SOAK is the number of others that run instead and are longer,
// CREW_SOAK_SEED repeats one.
func TestWorkerChaos(t *testing.T) {
	t.Parallel()
	seeds := []uint64{0, 1, 2, 9, 10, 11}
	if n, err := strconv.ParseUint(os.Getenv("CREW_SOAK_SEED"), 10, 64); err == nil {
		seeds = []uint64{n}
	} else if n, err := strconv.Atoi(os.Getenv("CREW_SOAK")); err == nil {
		seeds = nil
		for seed := uint64(time.Now().UnixNano()) / 6 * 6; len(seeds) < n; seed++ {
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, seed)
			c.disturb()
			c.end = c.Wait()
			require.NotContains(t, c.Stderr(), "SIGABRT", "it hung")
			c.Gone()
			crewtest.Until(c.t, func() bool { return c.guardians() == 0 }, "the guardian's end")
			if c.json {
				c.checkJSON()
			} else {
				c.checkPlain()
			}
			c.checkEnd()
		})
	}
}

// chaos is one round.
type chaos struct {
	*fault
	rnd     *rand.Rand
	spec    chaosSpec
	records []string
	keep    bool
	json    bool
	way     []syscall.Signal // how it is disturbed
	end     syscall.WaitStatus
}

// newChaos makes a round. Six seeds in a row have each protocol with each window, and
// the next six have the same disturbed, or not.
func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{rnd: rand.New(rand.NewPCG(seed, 1))}
	c.keep, c.json = c.rnd.IntN(2) == 0, c.rnd.IntN(2) == 0
	window := []int{1, 16}[seed/3%2]
	c.spec = chaosSpec{protocol: []string{"line", "nul", "json"}[seed%3], seed: seed, permille: 60, single: window == 1}
	n, huge := 80, 300_000
	if crewtest.Soaking() {
		n, huge = 400, 10_000_000
	}
	c.records = c.makeRecords(n, huge)
	args := []string{"-j3", "--worker", os.Args[0], "--worker-protocol", c.spec.protocol, "--worker-window", strconv.Itoa(window),
		"--retries", "20", "--retry-delay", "10ms", "--retry-on", "answer,signal,timeout,exit:3",
		"--timeout", "1", "--kill-after", "100ms", "--joblog", "log"}
	for option, on := range map[string]bool{"-k": c.keep, "--json": c.json, "-0": c.spec.protocol == "nul"} {
		if on {
			args = append(args, option)
		}
	}
	if seed/6%2 == 1 {
		c.way = chaosWays[c.rnd.IntN(len(chaosWays))]
	}
	c.fault = newFault(t, args...)
	c.Cmd.Env = append(c.Cmd.Env, workerVariable+"="+c.spec.String())
	sep := c.spec.terminator()
	c.Cmd.Stdin = strings.NewReader(strings.Join(c.records, sep) + sep)
	return c
}

// makeRecords makes n records, of which one is poison and about three have huge answers.
func (c *chaos) makeRecords(n, huge int) (records []string) {
	for i := range n {
		kind, size := "plain", c.rnd.IntN(30)
		switch k := c.rnd.IntN(n); {
		case i == n/2:
			kind = "poison"
		case k < 3:
			size = huge
		case k < n/10:
			size = c.rnd.IntN(20_000)
		case k < n/4 && c.spec.protocol == "nul":
			kind = "new\nline"
		}
		records = append(records, fmt.Sprintf("%06d %s %d", i+1, kind, size))
	}
	return records
}

// disturb starts crew and sends it its signals, each when some more records have ended.
func (c *chaos) disturb() {
	c.start()
	// A trace says where it hangs.
	defer time.AfterFunc(crewtest.Patience/4, func() { _ = c.Cmd.Process.Signal(syscall.SIGABRT) }).Stop()
	ended := 0
	for i, sig := range c.way {
		if i == 0 || c.way[i-1] != syscall.SIGTSTP {
			ended += c.rnd.IntN(len(c.records) / 4)
			crewtest.Until(c.t, func() bool {
				return strings.Count(c.read("log"), "\n") > ended || crewtest.State(c.Cmd.Process.Pid) == "Z"
			}, "records to end")
		}
		_ = c.Cmd.Process.Signal(sig)
		if sig == syscall.SIGTSTP { // else it may stop after it was told to go on
			crewtest.Until(c.t, func() bool { return strings.Contains("TZ", crewtest.State(c.Cmd.Process.Pid)) }, "the stop")
		}
	}
}

var chaosAgain = regexp.MustCompile(`(\d+) waiting for a retry`)

// checkPlain holds stdout against the joblog.
func (c *chaos) checkPlain() {
	t := c.t
	out := c.Stdout()
	rows := c.rows()
	shown := map[int]bool{}
	last := 0
	again := 0 // failures in a drain: their output is shown, and they have not ended
	if m := chaosAgain.FindStringSubmatch(c.Stderr()); m != nil {
		again, _ = strconv.Atoi(m[1])
	}
	for out != "" {
		answer, rest, whole := strings.Cut(out, c.spec.terminator())
		out = rest
		if !whole && c.killed() {
			break
		}
		seq, err := strconv.Atoi(answer[:min(6, len(answer))])
		require.NoError(t, err, "no answer: %.40q", answer)
		require.True(t, answer == chaosAnswer(c.records[seq-1]), "the answer to another record, or mixed: %.40q", answer)
		require.False(t, shown[seq], "record %d is answered twice", seq)
		require.True(t, seq > last || !c.keep, "record %d comes after %d", seq, last)
		shown[seq], last = true, seq
		_, logged := rows[seq]
		if !logged && !c.killed() {
			again--
			require.GreaterOrEqual(t, again, 0, "record %d is on stdout and not in the joblog: %v\n%s", seq, c.way, c.Stderr())
		}
	}
	for seq, exit := range rows {
		switch {
		case c.poison(seq):
			answered := c.spec.protocol == "json" && exit == 7
			require.True(t, answered == shown[seq] || answered && c.killed(), "poison: %v %v\n%s", c.way, c.end.Signal(), c.Stderr())
			require.True(t, exit == 7 || c.end.Signaled(), "poison")
		case exit == 0:
			require.True(t, shown[seq] || c.killed(), "record %d has ended and is not on stdout: %v %v\n%s", seq, c.way, c.end.Signal(), c.Stderr())
		default:
			require.True(t, c.end.Signaled(), "record %d has failed for good\n%s", seq, c.Stderr())
		}
	}
	c.checkNoise(c.Stderr(), false)
}

// chaosResult is what --json tells of an attempt.
type chaosResult struct {
	Seq      int
	Args     []string
	Outcome  string
	Exit     int
	Attempts []chaosResult
	Stdout   string
	Stderr   string
}

// checkJSON holds the results against the faults that workers have written down.
func (c *chaos) checkJSON() {
	t := c.t
	seen := map[int]bool{}
	last := 0
	var noise strings.Builder
	failed := map[string]int{} // attempts, but for timeouts
	timeouts := map[string]int{}
	for _, text := range strings.SplitAfter(c.Stdout(), "\n") {
		var r chaosResult
		if !strings.HasSuffix(text, "\n") {
			require.True(t, text == "" || c.killed(), "%.40q", text)
			break
		}
		require.NoError(t, json.Unmarshal([]byte(text), &r), "%.100q", text)
		require.Equal(t, c.records[r.Seq-1:r.Seq], r.Args)
		require.False(t, seen[r.Seq], "record %d is there twice", r.Seq)
		require.True(t, r.Seq > last || !c.keep, "record %d comes after %d", r.Seq, last)
		seen[r.Seq], last = true, r.Seq
		record := r.Args[0]
		for _, a := range r.Attempts {
			require.NotEqual(t, "ok", a.Outcome)
			if a.Outcome == "timeout" {
				timeouts[record]++
			} else {
				failed[record]++
			}
			noise.WriteString(a.Stderr)
		}
		noise.WriteString(r.Stderr)
		want := chaosAnswer(record) + c.spec.terminator()
		switch {
		case c.poison(r.Seq) && !c.end.Signaled():
			require.Equal(t, "exit", r.Outcome)
		case !c.end.Signaled() || r.Outcome == "ok":
			require.Equal(t, "ok", r.Outcome, "%.1000s", text)
			require.True(t, want == r.Stdout, "record %d has the answer %.40q", r.Seq, r.Stdout)
		default:
			require.Contains(t, []string{"cancelled", "signal", "timeout", "bad-answer", "exit", "lost", "not-run"}, r.Outcome)
		}
	}
	c.checkNoise(noise.String()+c.Stderr(), true)
	if !c.end.Signaled() {
		require.Len(t, seen, len(c.records))
		c.checkCharges(failed, timeouts)
	}
}

// checkCharges looks whether each record had the failed attempts that its faults
// explain. A timeout may come without a fault on a busy machine, or before it.
func (c *chaos) checkCharges(failed, timeouts map[string]int) {
	t := c.t
	charged := map[string]int{} // but for what ends in a timeout
	hung := map[string]int{}
	faults := map[int]bool{} // by process
	for line := range strings.Lines(c.read("charges")) {
		var pid int
		var name, record string
		_, err := fmt.Sscanf(line, "%d %s %q\n", &pid, &name, &record)
		require.NoError(t, err, line)
		if name != "twice" { // which the next record has to suffer for, if there is one
			faults[pid] = true
		}
		if slices.Contains([]string{"hang", "stubborn"}, name) {
			hung[record]++
		} else {
			charged[record]++
		}
	}
	total := 0
	for _, record := range c.records {
		total += failed[record] + timeouts[record]
		require.LessOrEqual(t, failed[record], charged[record], "record %q is charged for a fault that it did not meet:\n%s", record, c.resultOf(record))
		if c.spec.protocol != "json" {
			require.GreaterOrEqual(t, failed[record]+timeouts[record], charged[record]+hung[record], "record %q is not charged for a fault:\n%s", record, c.resultOf(record))
		}
	}
	require.GreaterOrEqual(t, total, len(faults))
}

// resultOf is the line on stdout about a record, without its output.
func (c *chaos) resultOf(record string) string {
	for line := range strings.Lines(c.Stdout()) {
		if strings.Contains(line, strconv.Quote(record)) {
			return regexp.MustCompile(`"std(out|err)":"[^"]{50}[^"]*"`).ReplaceAllString(line, `"...":`) + c.read("charges") + c.Stderr()
		}
	}
	return ""
}

// checkNoise looks whether what workers wrote to stderr is there, in whole lines, unless
// something ended the worker meanwhile. If not all, that of failed attempts is missing.
func (c *chaos) checkNoise(text string, all bool) {
	t := c.t
	lines, torn := 0, 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "noise ") {
			lines++
			if _, err := strconv.Unquote(strings.TrimSpace(line[len("noise "):])); err != nil {
				torn++
			}
		}
	}
	whole := strings.Count(c.read("floods"), ")")
	cut := strings.Count(c.read("floods"), "(") - whole
	if c.killed() {
		cut++
	}
	require.LessOrEqual(t, torn, cut, "cut lines on stderr")
	require.LessOrEqual(t, lines, (whole+cut)*chaosNoise, "lines on stderr")
	if all && cut == 0 && !c.end.Signaled() {
		require.Equal(t, whole*chaosNoise, lines, "lines on stderr")
	}
}

// checkEnd checks the exit status.
func (c *chaos) checkEnd() {
	t := c.t
	require.NotContains(t, c.Stderr(), "internal error")
	require.NotContains(t, c.Stderr(), "panic")
	if c.end.Signaled() {
		require.Contains(t, c.way, c.end.Signal(), c.Stderr())
		return
	}
	require.Equal(t, 123, c.end.ExitStatus(), c.Stderr())
	require.Len(t, c.rows(), len(c.records), "a status for each record")
}

func (c *chaos) poison(seq int) bool { return strings.Contains(c.records[seq-1], " poison ") }

// killed says whether crew had no time to show all: by SIGKILL, or as it says.
func (c *chaos) killed() bool {
	return c.end.Signaled() && (c.end.Signal() == syscall.SIGKILL || strings.Contains(c.Stderr(), "nobody reads stdout"))
}
