package wiring

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// killPlan is a row of testdata/kills.jsonl: something that crew does, and the disturbances.
type killPlan struct {
	Does   string            // one of subjects
	Args   []string          // options
	Before [][]string        // more options of earlier runs; see the subject
	Cut    string            // the last earlier run was killed at this call
	With   []string          // more options of the disturbed run
	At     map[string]string // by kind of disturbance, the call that the gate disturbs, if any
}

// subject is a use of crew that is disturbed.
type subject interface {
	prepare()           // sets up the files before the run
	run(d *disturbance) // runs crew to its end, or until it is disturbed
	holds()             // checks properties that hold at any moment
	check()             // checks properties that hold after a complete run
}

var subjects = map[string]func(*scene) subject{
	"results": func(s *scene) subject { return newKilledResults(s) },
	"queue":   func(s *scene) subject { return &killedQueue{scene: s} },
	"files":   func(s *scene) subject { return &killedFiles{scene: s} },
}

// TestDisturbed disturbs crew at the system calls that write files: it is killed, interrupted, has no room on its
// disk, or loses power. The next undisturbed run must leave everything in order. The gate disturbs each plan at the
// calls that the plan names. The soak disturbs it at every call, sometimes also at a call of the next run, and from
// outside at any time.
func TestDisturbed(t *testing.T) {
	t.Parallel()
	plans, lines := crewtest.Rows[killPlan]("testdata/kills.jsonl")
	for i, p := range plans {
		for what, call := range p.At {
			if call == "" && !crewtest.Soaking() {
				continue
			}
			t.Run(fmt.Sprintf("%d %s %s", lines[i], p.Does, what), func(t *testing.T) {
				t.Parallel()
				if !crewtest.Soaking() {
					require.True(t, disturb(t, p, callNamed(what, call), 0), "there is no such call")
					return
				}
				for n, more := 1, true; more; n++ {
					more = t.Run(fmt.Sprint(n), func(t *testing.T) {
						rand := crewtest.Rand(t, n)
						d := &disturbance{what: what, nth: n}
						if what == "outside" {
							d.after = time.Duration(rand.IntN(1000)) * time.Millisecond
						}
						if hit := disturb(t, p, d, rand.IntN(2)*rand.IntN(150)); what != "outside" {
							more = hit
						} else {
							more = n < crewtest.Rounds(0)
						}
					}) && more
				}
			})
		}
	}
}

// disturb disturbs a run, kills the next run at call number again, unless that is 0, and then completes a run. It
// reports whether the first run was disturbed.
func disturb(t *testing.T, p killPlan, d *disturbance, again int) bool {
	s := &scene{killPlan: p, t: t, dir: filepath.Join(t.TempDir(), "work"), Rand: crewtest.Rand(t, d.nth)}
	require.NoError(t, os.Mkdir(s.dir, 0o777))
	it := subjects[p.Does](s)
	it.prepare()
	it.run(d)
	t.Logf("%+v, then killed at call %d: %v", *d, again, s.calls)
	it.holds()
	if again > 0 {
		it.run(&disturbance{what: "kill", nth: again})
		it.holds()
	}
	it.run(&disturbance{})
	it.check()
	return d.hit
}

// disturbance says how and when a run is disturbed. The zero value does nothing.
type disturbance struct {
	what  string // "kill", "interrupt", "no room" (from then on), "no room once", "power cut" or "outside"
	call  string // the calls to disturb, as a name and a pattern for the path; "" for any
	nth   int    // the number of the call among these
	after time.Duration

	seen int
	hit  bool
}

// callNamed returns a disturbance at a call such as "fsync /state/*". A number after it says which of these calls; the
// default is the first one.
func callNamed(what, text string) *disturbance {
	d := &disturbance{what: what, nth: 1}
	name, pattern := "", ""
	_, _ = fmt.Sscan(text, &name, &pattern, &d.nth)
	d.call = name + " " + pattern
	return d
}

// judge returns the verdict on a call.
func (d *disturbance) judge(c fileCall) verdict {
	noRoom := strings.HasPrefix(d.what, "no room")
	matches, _ := path.Match(cmp.Or(d.call, c.String()), c.String())
	switch {
	case noRoom && (!c.grows || observed.MatchString(c.path)):
		return goesOn
	case d.hit && d.what == "no room":
		return hasNoRoom
	case !matches || d.hit || d.after > 0:
		return goesOn
	}
	if d.seen++; d.seen != d.nth {
		return goesOn
	}
	d.hit = true
	switch {
	case noRoom:
		return hasNoRoom
	case d.what == "interrupt":
		return interrupted
	}
	return dies
}

// scene is a directory in which crew runs.
type scene struct {
	killPlan
	*rand.Rand
	t     *testing.T
	dir   string
	runs  int
	cuts  int  // number of runs that were cut short
	rough bool // a disk was full or has lost data: ended tasks may run again

	calls  []fileCall // of the latest run
	killed bool
	hit    bool
	said   string // on stderr
}

// crewLine matches a line on stderr that crew itself wrote.
var crewLine = regexp.MustCompile(`(?m)^crew: .*\n`)

// crew runs crew in the scene, with its calls disturbed. Meanwhile it calls clients, which runs until over reports
// true. Unless it was disturbed, crew must exit with the given status.
func (s *scene) crew(d *disturbance, status int, clients func(over func() bool), cmd *exec.Cmd) {
	t := s.t
	t.Helper()
	cmd.Dir = s.dir
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	for stream, to := range map[string]*io.Writer{"stdout": &cmd.Stdout, "stderr": &cmd.Stderr} {
		f, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("%s.%d", stream, s.runs)))
		require.NoError(t, err)
		defer f.Close()
		*to = f
	}
	on, left := newDisk(s), map[string]onDisk(nil)
	p := startJudged(t, cmd, func(c fileCall) verdict {
		v := d.judge(c)
		if d.what == "power cut" && v == dies {
			left = on.cut()
		} else if d.what == "power cut" {
			on.sees(c)
		}
		return v
	})
	if d.after > 0 {
		kill := time.AfterFunc(d.after, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
	}
	if clients != nil {
		clients(func() bool { return !crewtest.Alive(cmd.Process.Pid) })
	}
	p.wait(t)
	if left != nil {
		s.restore(left)
	}
	ended := cmd.ProcessState.Sys().(syscall.WaitStatus)
	s.killed = ended.Signaled() && ended.Signal() == syscall.SIGKILL
	d.hit = d.hit || s.killed
	s.said, s.calls, s.hit = s.read(fmt.Sprintf("stderr.%d", s.runs)), p.calls, d.hit
	s.runs++
	if s.killed || d.hit && strings.HasPrefix(d.what, "no room") {
		s.cuts++
	}
	switch {
	case s.killed:
		s.rough = s.rough || d.what == "power cut"
	case !d.hit:
		require.Equal(t, status, ended.ExitStatus(), s.said)
	case d.what == "interrupt" && ended.Signaled():
		require.Equal(t, syscall.SIGINT, ended.Signal(), s.said)
	case ended.ExitStatus() == 1:
		s.rough = true
		require.Regexp(t, `(?m)^crew: .*no space left on device`, s.said)
	default: // the call was not needed, or the signal came too late
		require.Equal(t, status, ended.ExitStatus(), s.said)
	}
	require.NotRegexp(t, "internal error|panic:", s.said)
}

// read returns the text of a file, or "" if the file is missing.
func (s *scene) read(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if !os.IsNotExist(err) {
		require.NoError(s.t, err)
	}
	return string(text)
}

// write creates a file and its parent directories.
func (s *scene) write(name, text string) {
	name = filepath.Join(s.dir, name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(name), 0o777))
	crewtest.WriteFile(s.t, name, text, 0o666)
}

// has reports whether an option is among the arguments of crew.
func (s *scene) has(option string) bool { return strings.Contains(strings.Join(s.Args, " "), option) }
