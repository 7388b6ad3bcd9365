package journal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestModel checks that, however a run ends, the next one knows everything that was acknowledged
// and, of the rest, all or nothing per step.
func TestModel(t *testing.T) {
	t.Parallel()
	for round := range crewtest.Rounds(24) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			m := &model{world: newWorld(t, round%2 == 1), r: crewtest.Rand(t, round)}
			m.cfg.Output.Logs = m.r.IntN(2) == 0
			if m.cfg.Queue != nil && m.r.IntN(2) == 0 {
				m.cfg.Queue.Keep = -m.cfg.Queue.Keep
			}
			for range 6 {
				m.open()
				for range m.r.IntN(40) {
					m.step()
				}
				m.stop()
			}
		})
	}
}

// fate is the model's state of a task.
type fate struct {
	tries, fails, runs int // runs is the number of the running attempt
	before             task.AttemptHistory
	done               string // how it ended, if it did
	says               int    // length of the last attempt's output
	shown, logged      bool
	inLog              bool // the logs have it, perhaps not on disk
	kept               bool // its output is on disk
	lost, doubt        bool // its output is or may be damaged
	took               int
	note               string
	there              bool // a queue has accepted it
}

// model runs a world and predicts its state.
type model struct {
	*world
	r        *rand.Rand
	tasks    map[string]fate
	past     []moment // since the run began
	broken   bool     // nothing more is recorded
	last     int      // highest task number of the queue
	delivery string   // last delivery
	steps    []string

	maybe []moment // possible states in the next run
	lossy bool     // outputs that were not synced may be lost
}

// moment is the expected state if the journal is cut at its end or later.
type moment struct {
	end      int64
	tasks    map[string]fate
	delivery string
}

// begin returns the state after an attempt has begun, which replaces an earlier end.
func (k fate) begin() fate {
	if k.done != "" {
		k = fate{tries: k.tries, took: k.took, note: k.note, runs: k.runs, there: k.there}
	}
	k.tries, k.runs = max(k.tries, k.runs-1), 0
	return k
}

// end returns the state after an attempt has ended.
func (k fate) end(how string) fate {
	n := max(k.runs, 1)
	k = k.begin()
	e := endings[how]
	switch {
	case how == "cancel" || how == "fault":
	case e.Last:
		k.done, k.fails, k.took = e.Result.Outcome.String(), 0, n
		if k.tries = n; how == "ok" || how == "exit" {
			k.says = n
		}
		if e.None {
			k.tries, k.took = 0, 0
		}
	case how != "unbegun":
		if k.tries = n; how == "retry" {
			k.fails++
		}
		r := e.Result
		r.Attempt, r.Earlier = n, true
		var out *task.Result
		if k.before.Before, out = task.AppendAttempt(slices.Clone(k.before.Before), &r); out != nil {
			k.before.Omitted++
		}
	}
	return k
}

// settled reports whether the result needs nothing more.
func (k fate) settled() bool { return k.done != "" && k.shown && k.logged }

// gone reports whether a queue leaves the task out.
func (k fate) gone(c *Config) bool {
	return c.Queue != nil && (!k.there || k.settled() && (k.done == "ok" || k.done == "skipped"))
}

// view returns the expected answer of world.view.
func (k fate) view(name string, c *Config) (s string) {
	past := c.Resume
	if k.gone(c) {
		return "absent"
	}
	again := k.lost && (!k.settled() || past.Replay || past.Recall)
	switch failed := k.done == "exit" || k.done == "lost"; {
	case k.done == "" && k.tries > 0:
		s = fmt.Sprintf("tried %d failed %d%s", k.tries, k.fails, viewBefore(k.before))
	case k.done == "":
	case again, c.Queue == nil && past.RetryFailed && failed:
		s = fmt.Sprintf("tried %d failed 0", k.tries)
	default:
		s = k.done
		if k.shown && !past.Replay || c.Queue != nil && k.settled() && !past.Recall {
			s += " shown"
		}
		if k.logged {
			s += " logged"
		}
		if k.done == "cancelled" || k.done == "not-run" {
			s += " final"
		}
		if whole := !k.settled() || past.Replay || past.Recall; whole {
			if k.says > 0 {
				s += fmt.Sprintf(" says %s%d %d", name, k.says, len(says(name, k.says)))
			}
			s += viewBefore(k.before)
		}
	}
	if k.took > 0 && c.Queue == nil {
		s += fmt.Sprint(" took ", k.took)
	}
	return strings.TrimSpace(s + " " + k.note)
}

// take takes a step and updates the states of its tasks.
func (m *model) take(step string, names []string, should func(fate) fate) {
	m.steps = append(m.steps, step)
	err := m.do(step)
	if m.broken {
		require.True(m.t, err != nil || !strings.HasPrefix(step, "accept"))
		return
	}
	require.NoError(m.t, err, step)
	for _, name := range names {
		m.tasks[name] = should(m.tasks[name])
	}
	for name, k := range m.tasks {
		k.kept = k.kept || k.done != "" && !m.j.dirty && len(m.j.pending) == 0
		m.tasks[name] = k
	}
	m.past = append(m.past, moment{m.j.end + int64(len(m.j.pending)), maps.Clone(m.tasks), m.delivery})
}

// each takes a step with each of some tasks.
func (m *model) each(op string, names []string, should func(fate) fate) {
	for _, name := range names {
		m.take(op+" "+name, []string{name}, should)
	}
}

// some returns at most n tasks of this run for which ok is true.
func (m *model) some(n int, ok func(name string, tk *task.Task) bool) (names []string) {
	for name, tk := range m.world.tasks {
		if (m.cfg.Queue == nil || m.tasks[name].there) && ok(name, tk) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	m.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(n, len(names))]
}

// step takes a random step.
func (m *model) step() {
	waits := func(name string, tk *task.Task) bool { return tk.Done == nil && m.ended[name] == nil && !m.runs[name] }
	runs := func(name string, _ *task.Task) bool { return m.runs[name] }
	over := func(name string, tk *task.Task) bool { return m.ended[name] != nil || tk.Done != nil }
	switch n := m.r.IntN(22); {
	case n < 6:
		for _, name := range m.some(1+m.r.IntN(2), waits) {
			attempt := m.world.tasks[name].Attempts + 1
			m.each("start", []string{name}, func(k fate) fate { k.runs = attempt; return k })
		}
	case n < 12:
		hows := strings.Fields("ok ok ok exit exit retry retry lost memory unbegun cancel fault gone byhand")
		how := hows[m.r.IntN(len(hows)-1)]
		if m.cfg.Queue != nil && how == "gone" {
			how = "byhand"
		}
		m.each(how, m.some(1+m.r.IntN(2), runs), func(k fate) fate { return k.end(how) })
	case n < 15:
		names := m.some(2, over)
		m.take("show "+strings.Join(names, " "), names, func(k fate) fate {
			k.shown = k.shown || k.done != ""
			k.inLog = k.done != "" && m.cfg.Output.Logs
			k.logged = k.logged || k.done != "" && !k.inLog
			return k
		})
	case n < 16:
		m.take("log", slices.Collect(maps.Keys(m.tasks)), func(k fate) fate {
			k.logged, k.inLog = k.logged || k.inLog, false
			return k
		})
	case n < 17:
		m.take("idle", nil, nil)
	case n == 17 && !m.broken && m.r.IntN(6) == 0:
		m.take("breaks "+[]string{"/dev/full", "/dev/null"}[m.r.IntN(2)], nil, nil)
		m.broken = true
	case n >= 18 && m.cfg.Queue != nil:
		m.stepOfQueue(n, waits)
	}
}

func (m *model) stepOfQueue(n int, waits func(string, *task.Task) bool) {
	switch {
	case n < 20:
		m.last += 2
		names := []string{fmt.Sprint(m.last - 1), fmt.Sprint(m.last)}
		step := "accept "
		if m.r.IntN(2) == 0 && !m.broken {
			step, m.delivery = "accept-door ", names[0]
		}
		m.take(step+strings.Join(names, " "), names, func(k fate) fate { k.there = true; return k })
	case n == 20 && m.r.IntN(2) == 0:
		m.each("withdraw", m.some(1, waits), func(fate) fate { return fate{} })
	case n == 20:
		for _, name := range m.some(1, waits) {
			note := fmt.Sprint("n", m.r.IntN(9))
			m.take("change "+name+" "+note, []string{name}, func(k fate) fate { k.note = note; return k })
		}
	case !m.broken:
		m.take([]string{"compact", "compact-all"}[m.r.IntN(2)], slices.Collect(maps.Keys(m.tasks)), m.compacted)
		m.past = m.past[len(m.past)-1:]
	}
}

// compacted returns the state of a task after a compaction.
func (m *model) compacted(k fate) fate {
	if m.cfg.Queue != nil && m.cfg.Queue.Keep < 0 && k.settled() {
		return fate{}
	}
	return k
}

// stop ends the run in a random way.
func (m *model) stop() {
	how := m.r.IntN(3)
	if m.lossy = how == 2; how == 0 {
		m.take("close", nil, nil)
	}
	info, err := os.Stat(filepath.Join(m.cfg.Dir, journalName))
	require.NoError(m.t, err)
	end := info.Size()
	if how > 0 {
		from := m.past[0].end
		if m.lossy {
			from = max(from, m.synced)
		}
		end -= m.r.Int64N(end - from + 1)
		torn := []string{"", "\x00\x00\x00", "{\"event\":\"ended\"}\ngarbage\n"}[m.r.IntN(3)]
		m.steps = append(m.steps, fmt.Sprintf("cut at %d of %d to %d, power %v, torn %q", end, from, info.Size(), m.lossy, torn))
		m.kill(end, torn, m.lossy)
	}
	n := len(m.past)
	for n > 1 && m.past[n-1].end > end {
		n--
	}
	m.maybe = m.past[n-1 : min(n+1, len(m.past))]
}

// open begins the next run and checks its view of the tasks.
func (m *model) open() {
	step := "open"
	flags := []string{"-compact", "-recall", "-replay", "-retry"}
	if m.cfg.Queue != nil {
		flags = flags[:2]
	}
	for _, flag := range flags {
		if m.r.IntN(4) == 0 {
			step += " " + flag
		}
	}
	if m.cfg.Queue == nil {
		step += " a b c a d e"
	}
	m.steps = append(m.steps, step)
	require.NoError(m.t, m.do(step))
	m.tasks = map[string]fate{}
	names := map[string]fate{}
	for _, p := range m.maybe {
		maps.Copy(names, p.tasks)
	}
	for name := range m.world.tasks {
		names[name] = fate{}
	}
	for name := range names {
		m.tasks[name] = m.choose(name, strings.Contains(step, "-compact"))
	}
	before, after := m.delivery, m.delivery
	if len(m.maybe) > 0 {
		before, after = m.maybe[0].delivery, m.maybe[len(m.maybe)-1].delivery
	}
	if m.delivery = m.j.lastDelivery(); before == after {
		require.Equal(m.t, after, m.delivery)
	} else { // a delivery is complete or absent
		require.Contains(m.t, []string{before, after, ""}, m.delivery)
		first, _ := strconv.Atoi(after)
		for _, name := range []string{after, fmt.Sprint(first + 1)} {
			require.Equal(m.t, m.delivery == after, m.tasks[name].there, "task %s of door %s", name, after)
		}
	}
	m.broken, m.past = false, []moment{{m.j.end, maps.Clone(m.tasks), m.delivery}}
	m.last = int(m.j.LastID()) // numbers of an incomplete delivery are used again
	m.count()
}

// choose returns the state that this run has of a task, and checks that it is a possible one.
func (m *model) choose(name string, compacts bool) fate {
	got := "absent"
	if m.world.tasks[name] != nil {
		got = m.world.view(name)
	}
	var wants []string
	for _, p := range append(slices.Clone(m.maybe), moment{}) {
		if len(m.maybe) > 0 && len(p.tasks) == 0 && len(wants) > 0 {
			break
		}
		k := p.tasks[name]
		if k.runs > 0 {
			k = k.begin()
		}
		k.logged = k.logged || k.shown && !m.cfg.Output.Logs
		if k.inLog = false; compacts {
			k = m.compacted(k)
		}
		whole, damaged := k, k
		damaged.lost = k.lost || k.doubt || m.lossy && !k.kept && k.says > 0
		views := []string{whole.view(name, &m.cfg), damaged.view(name, &m.cfg)}
		switch {
		case got == views[0]:
			whole.doubt = damaged.lost && got == views[1]
			return whole
		case got == views[1]:
			return damaged
		}
		wants = append(wants, views...)
	}
	m.t.Fatalf("%s is %q, not of %q\n%s", name, got, wants, strings.Join(m.steps, "\n"))
	return fate{}
}

// count checks the counts of all tasks.
func (m *model) count() {
	var want Counts
	for _, k := range m.tasks {
		switch {
		case k.done == "" && k.there:
			want.Waiting++
		case k.done != "":
			want.Done++
			if k.done == "exit" || k.done == "lost" {
				want.Failed++
			}
			if !k.shown {
				want.Unshown++
			}
		}
	}
	r, _ := m.j.Resumed()
	want.Begins, want.Running = r.Begins, r.Running
	if m.cfg.Queue != nil {
		want.Waiting -= r.Running
	}
	require.Equal(m.t, want, r, strings.Join(m.steps, "\n"))
	s, last := dumped(m.t, m.cfg.Dir)
	require.Equal(m.t, []int{want.Done, want.Unshown}, []int{last[0], s.Unshown})
}

// lastDelivery returns the ID of the last delivery, or "".
func (j *Journal) lastDelivery() (id string) {
	for _, id = range j.deliveries {
	}
	return id
}
