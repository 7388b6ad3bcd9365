package wiring

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/journal"
)

// stintWork is the script of the tasks: LABEL SECONDS STATUS. It says when it begins
// and when it ends.
const stintWork = `echo begin $1 $(date +%s%N) >> effects
sleep $2
echo end $1 $(date +%s%N) >> effects
exit $3`

// TestServeSoak kills crew serve at random moments, and hands it over, while clients add tasks
// that start later or after others, and hold, release, move, cancel and retry them. What
// was accepted runs, unless it was cancelled or came after one that failed; at its time and
// not while it is held; after what it comes after; and twice only if it ran
// at a kill. While one is handed over, nothing that is added is refused. With CREW_SOAK set
// there are 200 kills.
func TestServeSoak(t *testing.T) {
	t.Parallel()
	s := &stints{t: t, dir: t.TempDir(), tasks: map[int]*stint{}, labels: map[string]*stint{}}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "work"), []byte(stintWork), 0o666))
	s.env = append(crew().Env, "GORACE=atexit_sleep_ms=0", "XDG_RUNTIME_DIR="+crewtest.ShortDir(t))
	kills := 2
	if crewtest.Soaking() {
		kills = 200
	}
	serving := s.serve("serving")
	for s.kills < kills {
		switch rand.IntN(4) {
		case 0:
			serving = s.handOver(serving)
		default:
			s.kill(serving)
			serving = s.serve("serving")
		}
	}
	s.finish(serving)
	s.check()
	t.Logf("%d kills, %d times handed over, %d tasks, %d changed by hand, %d begun",
		s.kills, s.handed, len(s.tasks), s.changed, s.begun)
}

// stint is a task, and what is to become of it.
type stint struct {
	number    int
	label     string
	fails     bool
	after     []int
	at        time.Time // not before; zero for any time
	held      [][2]time.Time
	holds     bool // it is held now, since the beginning of the last of held
	cancelled bool // or may be
	retried   bool // or may be: then it has run once more, whatever was said of it
}

// stints are the tasks of a queue.
type stints struct {
	t                             *testing.T
	dir                           string
	env                           []string
	tasks                         map[int]*stint
	labels                        map[string]*stint
	last, tried                   int
	kills, handed, changed, begun int
	again                         int    // tasks that may have been retried
	said                          string // by the latest crew ctl, on stderr
}

const stintJobs = 3

// serve starts a crew serve and waits until it says something.
func (s *stints) serve(said string) *crewtest.Process {
	cmd := crew("serve", "--name=q", "-j", strconv.Itoa(stintJobs), "--state=state", "--output=none")
	cmd.Dir, cmd.Env = s.dir, slices.Clip(s.env)
	p := crewtest.New(s.t, cmd).Start()
	p.Says(p.Stderr, said)
	return p
}

// ctl runs crew ctl. refused means that the run said no; if neither ok nor that, it is unknown
// what was done.
func (s *stints) ctl(words ...string) (printed string, ok, refused bool) {
	cmd := crew(append([]string{"ctl"}, words...)...)
	cmd.Dir, cmd.Env = s.dir, slices.Clip(s.env)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	s.said = said.String()
	return string(out), err == nil, strings.Contains(s.said, " (q)")
}

// kill lets clients work until the crew serve is killed.
func (s *stints) kill(p *crewtest.Process) {
	var killed atomic.Bool
	timer := time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() {
		killed.Store(true)
		_ = syscall.Kill(p.Cmd.Process.Pid, syscall.SIGKILL)
	})
	defer timer.Stop()
	for !killed.Load() {
		s.act()
	}
	s.kills++
	p.Wait()
}

// handOver has another crew serve take the place of one, while tasks are added.
func (s *stints) handOver(old *crewtest.Process) (next *crewtest.Process) {
	for range rand.IntN(5) {
		s.act()
	}
	next = s.serve("waiting for the end")
	old.Send(syscall.SIGTERM)
	for taken := false; !taken; {
		require.True(s.t, s.add(), "an addition was refused while the queue was handed over: %s", s.said)
		taken = strings.Contains(next.Stderr(), "serving as")
	}
	old.Wait()
	s.handed++
	return next
}

// act has a client do something.
func (s *stints) act() {
	number := strconv.Itoa(1 + rand.IntN(max(s.last, 1)))
	if rand.IntN(2) == 0 { // one that may still wait
		number = strconv.Itoa(max(1, s.last-rand.IntN(8)))
	}
	n, _ := strconv.Atoi(number)
	x := s.tasks[n]
	switch k := rand.IntN(11); {
	case k < 5 || x == nil:
		s.add()
	case k == 5:
		s.hold(x, number)
	case k == 6:
		s.release(x, number)
	case k == 7:
		if _, ok, _ := s.ctl("move", "--run=q", number, []string{"first", "last"}[rand.IntN(2)]); ok {
			s.changed++
		}
	case k == 8:
		if _, _, refused := s.ctl("cancel", "--run=q", number); !refused {
			x.cancelled = true
		}
	case k == 9:
		s.retry(x, number)
	default:
		s.ctl([]string{"explain", "log"}[rand.IntN(2)], "--run=q", number)
	}
}

// add adds a task, and returns whether it was accepted.
func (s *stints) add() bool {
	s.tried++
	x := &stint{label: "t" + strconv.Itoa(s.tried), fails: rand.IntN(8) == 0}
	words := []string{"add", "--to=q", "--note=" + x.label}
	if rand.IntN(4) == 0 {
		in := time.Duration(1+rand.IntN(900)) * time.Millisecond
		x.at = time.Now().Add(in)
		words = append(words, "--in="+strconv.FormatFloat(in.Seconds(), 'f', 3, 64))
	}
	for range rand.IntN(3) {
		if n := s.last - rand.IntN(10); n > 0 && s.tasks[n] != nil && rand.IntN(2) == 0 {
			x.after = append(x.after, n)
			words = append(words, "--after="+strconv.Itoa(n))
		}
	}
	printed, ok, _ := s.ctl(append(words, s.work(x)...)...)
	s.labels[x.label] = x
	if !ok {
		return false
	}
	number, err := strconv.Atoi(strings.TrimSpace(printed))
	require.NoError(s.t, err)
	require.Nil(s.t, s.tasks[number], "number %d was given twice", number)
	x.number, s.tasks[number], s.last = number, x, max(s.last, number)
	return true
}

// work returns the command of a task.
func (s *stints) work(x *stint) []string {
	status := "0"
	if x.fails {
		status = "3"
	}
	return []string{"sh", "work", x.label, fmt.Sprintf("0.%02d", rand.IntN(20)), status}
}

func (s *stints) hold(x *stint, number string) {
	_, ok, _ := s.ctl("hold", "--run=q", number)
	if ok && !x.holds { // otherwise it may be held by now, which finish undoes
		x.holds = true
		x.held = append(x.held, [2]time.Time{time.Now()})
		s.changed++
	}
}

// release releases a task, and reports whether the run has said yes or no.
func (s *stints) release(x *stint, number string) (answered bool) {
	before := time.Now()
	_, ok, refused := s.ctl("release", "--run=q", number)
	if refused {
		return true
	}
	if x.holds {
		x.held[len(x.held)-1][1] = before
		x.holds = false
	} else if x.at.After(before) {
		x.at = before
	}
	if ok {
		s.changed++
	}
	return ok
}

// retry runs a task again, which is another one then.
func (s *stints) retry(x *stint, number string) {
	printed, ok, refused := s.ctl("retry", "--run=q", number)
	if !refused {
		s.again++
		x.retried = true
	}
	n, _ := strconv.Atoi(strings.TrimSpace(printed))
	if ok && n != x.number {
		y := &stint{number: n, label: x.label, fails: x.fails, retried: true}
		s.tasks[n], s.last = y, max(s.last, n)
	}
}

// finish lets all tasks run.
func (s *stints) finish(p *crewtest.Process) {
	var latest time.Time
	for _, x := range s.labels {
		if x.at.After(latest) {
			latest = x.at
		}
	}
	time.Sleep(time.Until(latest)) // or release would start some before their time
	said := crewtest.Seen(func() string { return s.said })
	for n, x := range s.tasks {
		crewtest.Until(s.t, func() bool { return s.release(x, strconv.Itoa(n)) }, "task %d to be released: %s", n, said)
	}
	s.ctl("release", "--run=q", strconv.Itoa(s.last))
	crewtest.Until(s.t, func() bool { _, ok, _ := s.ctl("drain", "--rest", "q"); return ok || p.Ended() }, "the run to drain: %s", said)
	require.Contains(s.t, []int{statusOK, statusFailed}, p.Wait().ExitStatus())
}

// check looks at what the tasks have done.
func (s *stints) check() {
	t := s.t
	text, err := os.ReadFile(filepath.Join(s.dir, "effects"))
	if !errors.Is(err, fs.ErrNotExist) { // no task has begun
		require.NoError(t, err)
	}
	begun, ended := map[string][]time.Time{}, map[string][]time.Time{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		require.Len(t, f, 3, line)
		nanos, err := strconv.ParseInt(f[2], 10, 64)
		require.NoError(t, err)
		list := map[string]map[string][]time.Time{"begin": begun, "end": ended}[f[0]]
		list[f[1]] = append(list[f[1]], time.Unix(0, nanos))
	}
	for label, list := range begun {
		s.begun += len(list)
		require.NotNil(t, s.labels[label], label)
	}
	require.LessOrEqual(t, s.begun-len(begun), s.kills*stintJobs+s.again, "runs that were not needed")
	var succeeds func(n int) (sure, possible bool)
	succeeds = func(n int) (sure, possible bool) {
		x := s.tasks[n]
		sure = !x.fails && !x.cancelled
		possible = !x.fails
		for _, before := range x.after {
			a, b := succeeds(before)
			sure, possible = sure && a, possible && b
		}
		return sure, possible
	}
	for n, x := range s.tasks {
		runs := !x.cancelled
		for _, before := range x.after {
			sure, possible := succeeds(before)
			runs = runs && sure
			if x.retried || s.tasks[before].retried {
				continue
			}
			if !possible {
				require.Empty(t, begun[x.label], "task %d comes after %d, which failed", n, before)
			}
			if done := ended[s.tasks[before].label]; len(begun[x.label]) > 0 {
				require.NotEmpty(t, done, "task %d ran, but not %d before", n, before)
				require.False(t, begun[x.label][0].Before(done[0]), "task %d began before %d had ended", n, before)
			}
		}
		if runs {
			require.NotEmpty(t, ended[x.label], "task %d (%s) is lost", n, x.label)
		}
		if x.retried {
			continue
		}
		for _, b := range begun[x.label] {
			require.False(t, b.Before(x.at), "task %d began before its time", n)
			for _, span := range x.held {
				held := b.After(span[0]) && (span[1].IsZero() || b.Before(span[1]))
				require.False(t, held, "task %d began while it was held", n)
			}
		}
	}
	sum, err := journal.Dump(filepath.Join(s.dir, "state"), io.Discard)
	require.NoError(t, err)
	require.True(t, sum.Closed)
	require.Equal(t, []int{0, 0, 0}, []int{sum.Unshown, sum.Running, sum.Waiting})
}
