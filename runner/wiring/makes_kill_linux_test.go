package wiring

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestMakesKilledAtEachCall disturbs crew at the system calls by which it makes files: a kill,
// SIGINT or a full disk. After that each target is whole or absent, and what was there is
// there until it is replaced. The next run that is not disturbed leaves what the last command
// makes and nothing under temporary names, and runs again only what ran at a kill. With
// CREW_SOAK set it goes through every call in every plan.
func TestMakesKilledAtEachCall(t *testing.T) {
	t.Parallel()
	all := crewtest.Soaking()
	for name, d := range map[string]disturbance{
		"killed": {what: dies}, "interrupted": {what: interrupted, once: true},
		"no room once": {what: hasNoRoom, once: true}, "no room": {what: hasNoRoom},
	} {
		for _, p := range makePlans() {
			t.Run(name+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				m := newKilledMaker(t, p)
				most := m.run("2", d)
				first, last := 1+2*most/3, 0
				if all {
					first, last = 1, 2*most
				}
				rand := crewtest.Rand(t, 0)
				for n := first; n <= max(first, last) && !t.Failed(); n++ {
					t.Run(strconv.Itoa(n), func(t *testing.T) {
						one := *m
						one.t = t
						d := d
						if d.at = n; !one.turn(d, rand.IntN(2*most)) {
							last = n
						}
					})
				}
			})
		}
	}
}

// killedMaker carries out a plan.
type killedMaker struct {
	makePlan
	t     *testing.T
	dir   string
	kills int
	calls []fileCall     // of the latest run
	sees  func(fileCall) // unless nil, gets each call before it is judged
}

// newKilledMaker prepares a plan.
func newKilledMaker(t *testing.T, p makePlan) *killedMaker {
	m := &killedMaker{makePlan: p, t: t, dir: filepath.Join(t.TempDir(), "work")}
	m.write("work", makeWork)
	m.write("worker", makeWorker)
	for _, in := range makeInputs {
		m.write(in, "")
	}
	m.age(m.dir)
	if m.before {
		m.run("1", disturbance{})
		m.check("1")
		require.NoError(t, os.Remove(filepath.Join(m.dir, "effects")))
		m.age(m.dir)
	}
	require.NoError(t, os.CopyFS(m.dir+".saved", os.DirFS(m.dir)))
	return m
}

func (m *killedMaker) write(path, text string) {
	path = filepath.Join(m.dir, path)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(m.t, os.WriteFile(path, []byte(text), 0o666))
}

// restore makes a directory as the prepared one was.
func (m *killedMaker) restore(dir string) {
	require.NoError(m.t, os.RemoveAll(dir))
	require.NoError(m.t, os.CopyFS(dir, os.DirFS(m.dir+".saved")))
	m.age(dir)
}

// age sets the times of files: what there is of targets is older than the inputs, unless
// the journal has to tell that they are not up to date.
func (m *killedMaker) age(dir string) {
	require.NoError(m.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		year := 2010
		if strings.HasPrefix(path, dir+"/in/") && m.state() {
			year = 2005
		} else if strings.HasPrefix(path, dir+"/in/") {
			year = 2015
		}
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		return errors.Join(err, os.Chtimes(path, at, at))
	}))
}

// turn disturbs a run, kills the next one unless again is 0, and then lets a run come to its
// end. It reports whether there was such a call.
func (m *killedMaker) turn(d disturbance, again int) (cut bool) {
	t := m.t
	m.restore(m.dir)
	var calls []fileCall
	defer func() {
		if t.Failed() {
			t.Logf("disturbed at call %d (of %v), then killed at call %d", d.at, calls, again)
		}
	}()
	cut = m.run("2", d) >= d.at
	calls = m.calls
	m.check("1", "2")
	if again > 0 {
		m.run("2", disturbance{what: dies, at: again})
		m.check("1", "2")
	}
	m.run("2", disturbance{})
	m.check("2")
	m.nothingElse()
	text, err := os.ReadFile(filepath.Join(m.dir, "effects"))
	require.NoError(t, err)
	if d.what != hasNoRoom {
		require.LessOrEqual(t, strings.Count(string(text), "\n"), len(makeInputs)-1+4*m.kills, "%s", text)
	}
	return cut
}

// run runs a version of the command, and returns how many calls could be disturbed.
func (m *killedMaker) run(version string, d disturbance) (n int) {
	t := m.t
	t.Helper()
	args := append([]string{"-q", "-j1", "--retries=2", "--retry-on=exit:75", "--retry-delay=1ms"}, m.args...)
	if slices.Contains(m.args, "--worker-protocol=json") {
		args = append(args, "--worker=sh worker "+version)
	} else {
		args = append(args, "sh work "+version+" {} "+m.outs)
	}
	cmd := crew(append(append(args, ":::"), makeInputs...)...)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	cmd.Dir = m.dir
	var said strings.Builder
	cmd.Stderr = &said
	judge := d.judge(&n)
	p := startJudged(t, cmd, func(c fileCall) verdict {
		if m.sees != nil {
			m.sees(c)
		}
		return judge(c)
	})
	p.wait(t)
	m.calls = p.calls
	switch {
	case p.killed:
		m.kills++
	case d.at > 0 && n >= d.at:
		require.NotRegexp(t, "internal error|panic:", said.String())
	default:
		require.Equal(t, map[string]int{"1": 0, "2": 123}[version], cmd.ProcessState.ExitCode(), "%s", &said)
	}
	return n
}

// check checks that each target has been made whole by one of some versions of the command.
func (m *killedMaker) check(versions ...string) {
	t := m.t
	t.Helper()
	for path, in := range m.targets() {
		text, err := os.ReadFile(filepath.Join(m.dir, path))
		fails := in == "failing" && versions[len(versions)-1] == "2"
		switch {
		case err != nil && !m.before && (fails || len(versions) > 1):
			continue
		case fails:
			require.NoError(t, err)
			require.Equal(t, made("1", in), string(text), path)
		default:
			require.NoError(t, err)
			var whole []string
			for _, v := range versions {
				whole = append(whole, made(v, in))
			}
			require.Contains(t, whole, string(text), path)
		}
	}
}

// nothingElse checks that there are no leftovers.
func (m *killedMaker) nothingElse() {
	t := m.t
	targets := m.targets()
	require.NoError(t, filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, m.dir+"/")
		require.NotContains(t, name, ".crew-")
		if dir := filepath.Dir(name); err == nil && !e.IsDir() && dir != "." && dir != "in" && dir != "state" {
			require.Contains(t, targets, name)
		}
		return err
	}))
}
