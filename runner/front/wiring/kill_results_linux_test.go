package wiring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"crew/runner/keep/journal"
	"crew/runner/show/history"
)

// resultsWork is the script of the tasks. A task writes lines with its record and the name of the stream. One line is
// longer than a write of crew.
const resultsWork = `echo $1 >> effects
case $1 in
quiet) exit ;;
retried) ! mkdir tried 2> /dev/null || { echo retried try; exit 75; } ;;
failing) printf "failing out %0$2d\n" 0; echo failing err >&2; exit 3 ;;
esac
echo $1 out 0
echo $1 err >&2
`

var resultsRecords = []string{"a", "quiet", "failing", "b", "retried", "c", "d"}

// resultsRun holds the output of a run.
type resultsRun struct {
	out, err []string        // complete lines, without their common parts: "a out", or "a" for an object
	noted    map[string]bool // records whose results the journal listed as shown after the run
	repeats  bool            // its options allow results to be shown again
}

// killedResults is a run with --state that is resumed until it is complete. Each task has run, and has run again only
// if it ran during a kill. Each result was shown, and was shown again only if the journal did not yet list it as
// shown. The joblog and the results tree are complete. If earlier runs were complete, their logs are removed.
type killedResults struct {
	*scene
	shown                                     []resultsRun
	json, ordered, streams, keeps, raw, reset bool
	retries                                   bool // the disturbed run runs failed tasks again
}

func newKilledResults(s *scene) *killedResults {
	k := &killedResults{scene: s, json: s.has("--json"), ordered: s.has("-k"), raw: s.has("=raw"), reset: slices.Contains(s.With, "--state-reset")}
	k.retries = slices.Contains(s.With, "--retry-failed")
	k.streams = k.raw || s.has("=line")
	k.keeps = !k.streams && !s.has("=none")
	return k
}

func (k *killedResults) prepare() {
	k.write("work", resultsWork)
	k.write("log", "what another command has left\n")
	k.write("tree/3/stdout", "what another command has left\n")
	k.write("tree/3/result.json", "{}\n")
	for i, options := range k.Before {
		d := &disturbance{}
		if i == len(k.Before)-1 && k.Cut != "" {
			d = callNamed("kill", k.Cut)
		}
		k.again(d, options...)
		require.Equal(k.t, d.what == "kill", d.hit, "%v", k.calls)
	}
	if k.Before != nil && k.Cut == "" { // crew restores them from the journal
		require.NoError(k.t, os.Remove(filepath.Join(k.dir, "log")))
		require.NoError(k.t, os.RemoveAll(filepath.Join(k.dir, "tree")))
	}
}

func (k *killedResults) run(d *disturbance) {
	k.again(d, k.With...)
	k.With = nil
}

// again runs crew with more options.
func (k *killedResults) again(d *disturbance, options ...string) {
	args := slices.Concat([]string{"-q", "--state=state", "--retries=1", "--retry-delay=1ms", "--retry-on=exit:75"}, k.Args, options)
	cmd := crew(append(args, "/bin/sh", "work", "{}", strconv.Itoa(k.zeros()))...)
	cmd.Stdin = strings.NewReader(strings.Join(resultsRecords, "\n") + "\n")
	k.crew(d, 123, nil, cmd)
	out := k.read(fmt.Sprintf("stdout.%d", k.runs-1))
	r := resultsRun{out: k.units(out), err: k.units(crewLine.ReplaceAllString(k.said, "")), noted: k.noted(), repeats: options != nil}
	k.shown = append(k.shown, r)
	k.ordering(&r)
}

// zeros returns how many zeros one task writes. If the task writes to crew's own stdout, they fit into one write.
func (k *killedResults) zeros() int { return map[bool]int{true: 3000, false: 100000}[k.raw] }

// line returns the last line that a task writes to a stream.
func (k *killedResults) line(record, stream string) string {
	switch {
	case record == "quiet":
		return ""
	case stream == "err":
		return record + " err\n"
	case record == "failing":
		return fmt.Sprintf("failing out %0*d\n", k.zeros(), 0)
	}
	return record + " out 0\n"
}

// units splits the output of a run into results. It drops an incomplete last line.
func (k *killedResults) units(text string) (units []string) {
	for l := range strings.Lines(text) {
		words := strings.Fields(l)
		switch {
		case !strings.HasSuffix(l, "\n"):
		case k.json && strings.Contains(l, `"outcome":"not-run"`): // after a failure
		case k.json:
			units = append(units, k.object(l))
		case l == "retried try\n":
			// The failed attempt was the last one of a draining run, or outputs are not kept.
			require.True(k.t, k.streams || k.hit, l)
		default:
			require.Equal(k.t, k.line(words[0], words[1]), l)
			units = append(units, words[0]+" "+words[1])
		}
	}
	return units
}

// object checks a result in JSON and returns its record.
func (k *killedResults) object(text string) string {
	var o struct {
		Task           int
		Outcome        string
		Args           []string
		Stdout, Stderr string
	}
	require.NoError(k.t, json.Unmarshal([]byte(text), &o), text)
	record := resultsRecords[o.Task-1]
	require.Equal(k.t, []string{record}, o.Args)
	if record == "retried" && k.hit { // this may be the first attempt
		return record
	}
	require.Equal(k.t, record == "failing", o.Outcome == "exit")
	if k.keeps {
		require.Equal(k.t, []string{k.line(record, "out"), k.line(record, "err")}, []string{o.Stdout, o.Stderr})
	}
	return record
}

// noted returns the records whose results the journal lists as shown.
func (k *killedResults) noted() map[string]bool {
	var text bytes.Buffer
	if _, err := journal.Dump(filepath.Join(k.dir, "state"), &text); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(k.t, err)
	}
	records, noted := map[string]string{}, map[string]bool{}
	for l := range strings.Lines(text.String()) {
		var line struct {
			Event, ID string
			Task      int
			IDs       []string
			Shown     bool
		}
		require.NoError(k.t, json.Unmarshal([]byte(l), &line), l)
		switch line.Event {
		case "started":
			noted[resultsRecords[line.Task-1]] = false
		case "ended":
			records[line.ID] = resultsRecords[line.Task-1]
			noted[records[line.ID]] = line.Shown
		case "shown": // on a full disk, this line may have been written without the end of the task
			for _, id := range line.IDs {
				noted[records[id]] = records[id] != ""
			}
		}
	}
	return noted
}

// ordering checks that the output of a run is in order, if -k was given, and that it is noted.
func (k *killedResults) ordering(r *resultsRun) {
	at := func(unit string) int { return slices.Index(resultsRecords, strings.Fields(unit)[0]) }
	for _, units := range [][]string{r.out, r.err} {
		require.True(k.t, !k.ordered || slices.IsSortedFunc(units, func(a, b string) int { return at(a) - at(b) }), "%v", units)
		for _, u := range units {
			require.True(k.t, k.killed || k.rough || r.noted[strings.Fields(u)[0]], "%s is shown and not noted", u)
		}
	}
}

func (k *killedResults) holds() {}

func (k *killedResults) check() {
	did := k.effects()
	for _, stream := range []string{"out", "err"} {
		k.stream(stream)
	}
	k.joblog(did)
	k.tree()
	s, r, err := history.State(filepath.Join(k.dir, "state"))
	require.NoError(k.t, err)
	require.EqualValues(k.t, len(resultsRecords), r.Total.Tasks)
	require.Equal(k.t, []int{0, 0}, []int{s.Unshown, s.Running})
	require.True(k.t, s.Closed)
	require.Zero(k.t, s.Damage)

	// Another run has nothing to run, show or log.
	log, tree := k.read("log"), k.files("/tree")
	k.again(&disturbance{})
	last := k.shown[len(k.shown)-1]
	require.Empty(k.t, append(last.out, last.err...))
	require.Equal(k.t, did, k.effects())
	require.Equal(k.t, log, k.read("log"))
	require.Equal(k.t, tree, k.files("/tree"))
	if k.keeps && k.ordered { // a replay has the same output as an undisturbed run
		k.again(&disturbance{}, "--replay")
		last = k.shown[len(k.shown)-1]
		require.Equal(k.t, k.wanted("out"), last.out)
		require.Equal(k.t, k.wanted("err"), last.err)
		k.tree()
	}
}

// most returns how often a task may end in undisturbed runs.
func (k *killedResults) most(record string) int {
	switch {
	case k.reset:
		return 2
	case record == "failing" && k.retries:
		return len(k.Before) + 1
	case record == "failing":
		return max(1, len(k.Before))
	}
	return 1
}

// effects returns how often each task ran, and checks that kills explain each repetition.
func (k *killedResults) effects() (did map[string]int) {
	did = map[string]int{}
	for _, record := range strings.Fields(k.read("effects")) {
		did[record]++
	}
	again := 0
	for _, r := range resultsRecords {
		require.Positive(k.t, did[r], "task %s is lost", r)
		most := k.most(r)
		if r == "retried" {
			most++
		}
		again += max(0, did[r]-most)
	}
	if !k.runsAgain() && !k.rough {
		require.LessOrEqual(k.t, again, k.cuts*4, "more ran again than could run at a kill: %v", did)
	}
	return did
}

// runsAgain reports whether a task may run again although its end is recorded, because its lines were lost while they
// waited for their turn.
func (k *killedResults) runsAgain() bool { return k.streams && k.ordered && !k.has("--results") }

// wanted returns the results that all runs together must write to a stream.
func (k *killedResults) wanted(stream string) (units []string) {
	for _, r := range resultsRecords {
		switch {
		case k.json && stream == "out":
			units = append(units, r)
		case !k.json && !k.has("=none") && r != "quiet":
			units = append(units, r+" "+stream)
		}
	}
	return units
}

// stream checks that all results were shown, and that no result that the journal listed as shown was shown again.
func (k *killedResults) stream(name string) {
	var all []string
	noted := map[string]bool{} // before the current run
	for i, r := range k.shown {
		units := map[string][]string{"out": r.out, "err": r.err}[name]
		for _, u := range units {
			require.False(k.t, noted[strings.Fields(u)[0]] && !r.repeats, "run %d shows %s again", i+1, u)
		}
		all, noted = append(all, units...), r.noted
	}
	require.Subset(k.t, all, k.wanted(name))
}

// joblog checks that the joblog has a header and a row for each end of a task.
func (k *killedResults) joblog(did map[string]int) {
	if !k.has("--joblog") {
		return
	}
	header, text, _ := strings.Cut(k.read("log"), "\n")
	require.True(k.t, strings.HasPrefix(header, "Seq\tHost\t"), header)
	rows := map[string]int{}
	for l := range strings.Lines(text) {
		cell := strings.Split(strings.TrimSuffix(l, "\n"), "\t")
		require.True(k.t, len(cell) == 9 && strings.HasSuffix(l, "\n"), l)
		seq, err := strconv.Atoi(cell[0])
		require.NoError(k.t, err, l)
		record := resultsRecords[seq-1]
		rows[record]++
		require.Equal(k.t, map[bool]string{true: "3", false: "0"}[record == "failing"], cell[6], l)
		if k.keeps || k.has("--results") {
			require.Equal(k.t, strconv.Itoa(len(k.line(record, "out"))), cell[5], l)
		}
	}
	for _, r := range resultsRecords {
		most := k.most(r)
		if k.runsAgain() || k.rough {
			most = max(most, did[r])
		}
		require.True(k.t, rows[r] > 0 && rows[r] <= most, "%d rows of %s", rows[r], r)
	}
	require.True(k.t, !k.retries || rows["failing"] == min(did["failing"], 2), "a row for each end: %v", rows)
}

// tree checks that each task has a complete directory, and that there is nothing else.
func (k *killedResults) tree() {
	if !k.has("--results") {
		return
	}
	files := k.files("/tree")
	for i, r := range resultsRecords {
		dir := "/tree/" + strconv.Itoa(i+1)
		require.Equal(k.t, k.line(r, "out"), files[dir+"/stdout"].text)
		require.Equal(k.t, k.line(r, "err"), files[dir+"/stderr"].text)
		text := files[dir+"/result.json"].text
		require.True(k.t, json.Valid([]byte(text)) && strings.Contains(text, `"args":["`+r+`"]`), text)
		for _, name := range []string{"stdout", "stderr", "result.json"} {
			delete(files, dir+"/"+name)
		}
		if r == "retried" { // a kill can lose the output of a failed attempt
			delete(files, dir+"/stdout.1")
			delete(files, dir+"/stderr.1")
		}
	}
	require.Empty(k.t, files)
}
