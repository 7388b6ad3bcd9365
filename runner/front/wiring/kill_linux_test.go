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

// killPlan is a row of testdata/kills.jsonl: something that crew does, and what disturbs it.
type killPlan struct {
	Does   string            // one of subjects
	Args   []string          // options
	Before [][]string        // what earlier runs had beside these, see the subject
	Cut    string            // the last of them was killed at this call
	With   []string          // more options of the run that is disturbed
	At     map[string]string // the kinds of disturbances: the call that the gate disturbs so, if any
}

// subject is what is disturbed.
type subject interface {
	prepare()           // makes what is there before
	run(d *disturbance) // runs crew to its end, or until it is disturbed
	holds()             // checks what holds at any moment
	check()             // checks what holds once a run has come to its end
}

var subjects = map[string]func(*scene) subject{
	"results": func(s *scene) subject { return newKilledResults(s) },
	"queue":   func(s *scene) subject { return &killedQueue{scene: s} },
	"files":   func(s *scene) subject { return &killedFiles{scene: s} },
}

// TestDisturbed disturbs crew at the system calls by which it writes files: it is killed
// there, is interrupted, has no room on its disk, or has its power cut. The next run that is
// not disturbed leaves everything as it should be. The gate disturbs each plan at the calls
// that it names; the soak at every call, sometimes at another one of the run after that, too,
// and from outside at any time.
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
					t.Run(fmt.Sprint(n), func(t *testing.T) {
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
					})
				}
			})
		}
	}
}

// disturb disturbs a run, kills the next one at its call number again unless that is 0, and
// then lets a run come to its end. It reports whether the first one was disturbed.
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

// disturbance is what is done to a run, and when. The zero value is nothing.
type disturbance struct {
	what  string // "kill", "interrupt", "no room" (from then on), "no room once", "power cut" or "outside"
	call  string // only at such calls: a name and a pattern of its path; "" for any
	nth   int    // at which of them
	after time.Duration

	seen int
	hit  bool
}

// callNamed returns a disturbance at a call, such as "fsync /state/*": the first one, or the
// one whose number follows.
func callNamed(what, text string) *disturbance {
	d := &disturbance{what: what, nth: 1}
	name, pattern := "", ""
	_, _ = fmt.Sscan(text, &name, &pattern, &d.nth)
	d.call = name + " " + pattern
	return d
}

// judge says what becomes of a call.
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
	cuts  int  // runs in which something was cut short
	rough bool // a disk was full or has lost something: what had ended may run again

	calls  []fileCall // of the latest run
	killed bool
	hit    bool
	said   string // on stderr
}

// crewLine is a line of crew's own on stderr.
var crewLine = regexp.MustCompile(`(?m)^crew: .*\n`)

// crew runs crew there with its calls disturbed. Meanwhile, clients do something until it is
// over. Unless it is disturbed, it exits with the given status.
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

// read returns a file's text, "" if there is none.
func (s *scene) read(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if !os.IsNotExist(err) {
		require.NoError(s.t, err)
	}
	return string(text)
}

// write makes a file, and the directories above it.
func (s *scene) write(name, text string) {
	name = filepath.Join(s.dir, name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(name), 0o777))
	require.NoError(s.t, os.WriteFile(name, []byte(text), 0o666))
}

// has reports whether crew has such an option.
func (s *scene) has(option string) bool { return strings.Contains(strings.Join(s.Args, " "), option) }
