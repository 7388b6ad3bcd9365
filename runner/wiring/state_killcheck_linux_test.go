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

	"crew/runner/history"
	"crew/runner/journal"
)

// killRun holds what a run of crew has left.
type killRun struct {
	cut      bool // it was disturbed
	killed   bool
	failed   bool // it ended with status 1
	calls    []fileCall
	repeats  bool            // its options let it show results again
	out, err []string        // what it showed, in units
	noted    map[string]bool // records of which the journal then said that their results had been shown
}

// zeros is how many zeros one task prints: more than crew writes at once, but not
// more than the task does where its output is crew's own.
func (p *killPlan) zeros() int {
	if p.mode.name == "raw" {
		return 3000
	}
	return 100000
}

// out returns what the last attempt at a task writes to stdout.
func (p *killPlan) out(record string) string {
	switch record {
	case "quiet", unstartable:
		return ""
	case "failing":
		return fmt.Sprintf("out %s\n%0*d\n", record, p.zeros(), 0)
	}
	return "out " + record + "\n"
}

// err returns what it writes to stderr.
func (p *killPlan) err(record string) string {
	if p.out(record) == "" {
		return ""
	}
	return "err " + record + "\n"
}

// units splits what a run has shown into units, each a record and a line that its
// task wrote, or "object". It leaves out a last line that was cut by a kill.
func (k *killed) units(text string, of func(string) string) (units []string) {
	known := map[string]string{"first try\n": "retried first try", "first err\n": "retried first err"}
	for _, r := range killRecords {
		for _, u := range unitsOf(r, of(r)) {
			known[strings.TrimPrefix(u, r+" ")+"\n"] = u
		}
	}
	for l := range strings.Lines(text) {
		switch unit, is := known[shorten(l)]; {
		case !strings.HasSuffix(l, "\n"):
		case k.mode.json && strings.Contains(l, `"outcome":"not-run"`): // after a failure
		case k.mode.json:
			units = append(units, k.object(l)+" object")
		default:
			require.True(k.t, is, "an odd line: %.200q", l)
			units = append(units, unit)
		}
	}
	return units
}

// unitsOf splits what a task writes into units.
func unitsOf(record, text string) (units []string) {
	for l := range strings.Lines(text) {
		units = append(units, record+" "+strings.TrimSuffix(shorten(l), "\n"))
	}
	return units
}

// shorten replaces a line of zeros by their number.
func shorten(l string) string {
	if zeros := strings.TrimRight(l, "\n"); len(zeros) > 100 && strings.Trim(zeros, "0") == "" {
		return fmt.Sprintf("%d zeros%s", len(zeros), l[len(zeros):])
	}
	return l
}

func recordOf(unit string) string {
	record, _, _ := strings.Cut(unit, " ")
	return record
}

// object checks a result in JSON and returns its record.
func (k *killed) object(text string) string {
	t := k.t
	var o struct {
		Task           int
		Outcome        string
		Args           []string
		Stdout, Stderr string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &o), text)
	record := killRecords[o.Task-1]
	require.Equal(t, []string{record}, o.Args)
	require.Equal(t, outcomeOf(record), o.Outcome, record)
	if k.mode.keeps {
		require.Equal(t, k.out(record), o.Stdout)
		require.Equal(t, k.err(record), o.Stderr)
	}
	return record
}

func outcomeOf(record string) string {
	switch record {
	case "failing":
		return "exit"
	case unstartable:
		return "start-failed"
	}
	return "ok"
}

// noted returns the records whose results have been shown, as the journal has it.
func (k *killed) noted() map[string]bool {
	t := k.t
	var text bytes.Buffer
	if _, err := journal.Dump(filepath.Join(k.dir, "state"), &text); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	records, ended, noted := map[string]string{}, map[string]bool{}, map[string]bool{}
	for l := range strings.Lines(text.String()) {
		var line struct {
			Event, ID       string
			Task            int
			IDs             []string
			Released, Shown bool
		}
		require.NoError(t, json.Unmarshal([]byte(l), &line), l)
		switch line.Event {
		case "started", "ended":
			record := killRecords[line.Task-1]
			records[line.ID] = record
			ended[record], noted[record] = line.Event == "ended", line.Released || line.Shown
		case "released", "shown":
			for _, id := range line.IDs {
				noted[records[id]] = ended[records[id]] // a full disk may have taken the note but not the end
			}
		}
	}
	return noted
}

// check compares what the runs of a turn have left with what the tasks did. The
// last run came to its end.
func (k *killed) check() {
	did := k.checkEffects()
	k.checkShown(did)
	k.checkJoblog(did)
	k.checkTree()
	s, r, err := history.State(filepath.Join(k.dir, "state"))
	require.NoError(k.t, err)
	require.EqualValues(k.t, len(killRecords), r.Total.Tasks)
	require.Equal(k.t, []int{0, 0}, []int{s.Unshown, s.Running})
	require.True(k.t, s.Closed)
	require.Zero(k.t, s.Damage)
}

// checkEffects checks that each task ran, and twice only if it ran at a kill. It
// returns how often each ran, without an attempt that a retry followed: that one is
// counted under "retried first".
func (k *killed) checkEffects() (did map[string]int) {
	t := k.t
	did = map[string]int{}
	for l := range strings.Lines(k.read("effects")) {
		record, attempt, _ := strings.Cut(strings.TrimSpace(l), " ")
		if record == "retried" && attempt == "1" && k.tries > 1 {
			record = "retried first"
		}
		did[record]++
	}
	twice := 0
	for _, r := range append([]string{"retried first"}, killRecords...) {
		if r == unstartable || r == "retried first" && k.tries == 1 {
			continue
		}
		require.Positive(t, did[r], "task %q is lost", r)
		_, most := k.ends(r)
		twice += max(0, did[r]-most)
	}
	if !k.runsAgain() && !k.failed() {
		require.LessOrEqual(t, twice, k.kills()*k.jobs, "more ran again than could run at a kill: %v", did)
	}
	return did
}

// failed says whether a run could not write something. What ended after that may
// run again.
func (k *killed) failed() bool {
	return slices.ContainsFunc(k.runs, func(r killRun) bool { return r.failed })
}

func (k *killed) read(name string) string {
	b, err := os.ReadFile(filepath.Join(k.dir, name))
	require.NoError(k.t, err)
	return string(b)
}

// checkShown checks that all results were shown, and none again of which the
// journal said that it had been.
func (k *killed) checkShown(did map[string]int) {
	wantOut, wantErr := k.wanted()
	k.checkStream(wantOut, did, func(r *killRun) []string { return r.out })
	k.checkStream(wantErr, did, func(r *killRun) []string { return r.err })
}

func (k *killed) checkStream(wanted []string, did map[string]int, of func(*killRun) []string) {
	t := k.t
	times := map[string]int{}
	noted := map[string]bool{} // before the run
	for i := range k.runs {
		r := &k.runs[i]
		for _, u := range of(r) {
			times[u]++
			require.False(t, noted[recordOf(u)] && !r.repeats, "run %d shows %s again", i+1, u)
		}
		k.checkOrder(i, of(r))
		noted = r.noted
	}
	for u, n := range times {
		by := recordOf(u)
		first := strings.HasPrefix(u, "retried first ")
		if first {
			by = "retried first"
		}
		require.True(t, slices.Contains(wanted, u) || first && k.mode.streams, u)
		if k.mode.streams && !k.mode.order {
			require.LessOrEqual(t, n, did[by], "%s was shown more often than written", u)
		}
	}
	for _, u := range wanted {
		require.Positive(t, times[u], "%s is lost", u)
	}
}

// wanted returns what all runs together have to show.
func (k *killed) wanted() (out, err []string) {
	for _, r := range killRecords {
		switch {
		case k.mode.json:
			out = append(out, r+" object")
		case k.mode.name != "none":
			out, err = append(out, unitsOf(r, k.out(r))...), append(err, unitsOf(r, k.err(r))...)
		}
	}
	return out, err
}

// checkOrder checks that what a run has shown is in order, and noted in the
// journal, except for its end if the run was killed.
func (k *killed) checkOrder(i int, units []string) {
	r := &k.runs[i]
	if k.mode.order {
		require.True(k.t, slices.IsSortedFunc(units, func(a, b string) int {
			return slices.Index(killRecords, recordOf(a)) - slices.Index(killRecords, recordOf(b))
		}), "run %d: %v", i+1, units)
	}
	fresh := false
	for _, u := range units {
		now := !r.noted[recordOf(u)]
		require.False(k.t, now && !r.killed && !r.failed, "run %d has shown %s and did not note it", i+1, u)
		if (!k.mode.streams || k.mode.order) && !r.failed {
			require.False(k.t, fresh && !now, "run %d has shown %v, of which only %v are noted", i+1, units, r.noted)
		}
		fresh = fresh || now
	}
}

// checkJoblog checks that the joblog has a header and a row for each end of a task.
// After a replay, where did is nil, that is one row for each task.
func (k *killed) checkJoblog(did map[string]int) {
	if !k.joblog {
		return
	}
	t := k.t
	header, text, _ := strings.Cut(k.read("log"), "\n")
	require.True(t, strings.HasPrefix(header, "Seq\tHost\t"), header)
	rows := map[string]int{}
	for l := range strings.Lines(text) {
		require.True(t, strings.HasSuffix(l, "\n"), "a torn row: %q", l)
		cell := strings.Split(strings.TrimSuffix(l, "\n"), "\t")
		require.Len(t, cell, 9, l)
		seq, err := strconv.Atoi(cell[0])
		require.NoError(t, err, l)
		record := killRecords[seq-1]
		rows[record]++
		require.Equal(t, map[string]string{"ok": "0", "exit": "3", "start-failed": "126"}[outcomeOf(record)], cell[6], l)
		if k.mode.keeps || k.tree {
			require.Equal(t, strconv.Itoa(len(k.out(record))), cell[5], l)
		}
	}
	for _, r := range killRecords {
		least, most := 1, 1
		if did != nil && k.story.name != "reset" {
			least, most = k.ends(r)
		}
		switch again := k.runsAgain() || k.failed(); {
		case did == nil || !again:
		case r == unstartable:
			most += len(k.runs) - len(k.begun)
		default:
			most = max(most, did[r])
		}
		require.GreaterOrEqual(t, rows[r], least, "rows of %q", r)
		require.LessOrEqual(t, rows[r], most, "rows of %q", r)
	}
}

// checkTree checks that each task has its directory, complete, and that there is
// nothing else.
func (k *killed) checkTree() {
	if !k.tree {
		return
	}
	t := k.t
	tree := os.DirFS(filepath.Join(k.dir, "tree"))
	var want, before []string
	for i, r := range killRecords {
		dir := strconv.Itoa(i + 1)
		want = append(want, dir+"/stdout", dir+"/stderr", dir+"/result.json")
		if r == "retried" {
			before = append(before, dir+"/stdout.1", dir+"/stderr.1")
		}
		require.Equal(t, k.out(r), k.read("tree/"+dir+"/stdout"))
		require.Equal(t, k.err(r), k.read("tree/"+dir+"/stderr"))
		var o struct {
			Task    int
			Outcome string
			Args    []string
		}
		text := k.read("tree/" + dir + "/result.json")
		require.NoError(t, json.Unmarshal([]byte(text), &o), text)
		require.Equal(t, i+1, o.Task)
		require.Equal(t, outcomeOf(r), o.Outcome)
		require.Equal(t, []string{r}, o.Args)
	}
	var got []string
	require.NoError(t, fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, path)
		}
		return err
	}))
	// A kill can lose what a failed attempt wrote.
	require.Subset(t, append(want, before...), got)
	require.Subset(t, got, want)
}

// idle runs crew when there is nothing left to run, to show or to log.
func (k *killed) idle() {
	t := k.t
	files := func() map[string]string {
		f := map[string]string{}
		for _, name := range []string{"effects", "log", "tree"} {
			_ = filepath.WalkDir(filepath.Join(k.dir, name), func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					b, _ := os.ReadFile(path)
					f[path] = string(b)
				}
				return nil
			})
		}
		return f
	}
	before := files()
	k.run(disturbance{})
	r := k.runs[len(k.runs)-1]
	require.Empty(t, r.out)
	require.Empty(t, r.err)
	require.Equal(t, before, files())
}

// replay checks that a replay shows what a run that was never disturbed shows.
func (k *killed) replay() {
	t := k.t
	k.run(disturbance{}, "--replay")
	r := k.runs[len(k.runs)-1]
	out, err := k.wanted()
	require.Equal(t, out, r.out)
	require.Equal(t, err, r.err)
	if !k.mode.json {
		var text strings.Builder
		for _, record := range killRecords {
			text.WriteString(k.out(record))
		}
		require.Equal(t, text.String(), k.read(fmt.Sprintf("stdout.%d", len(k.runs)-1)))
	}
	k.checkJoblog(nil)
	k.checkTree()
}
