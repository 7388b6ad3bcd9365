package stories

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// cannot lists the command lines of these pages that cannot run here.
var cannot = []string{
	"go test ./...", // it runs this test
}

// readmeLines returns the command lines of the README, followed by those of the cookbook: the lines of
// their shell blocks, and the commands of crontabs. printed is the output that the README shows below a
// command with a $ before it.
func readmeLines(t *testing.T) (lines []string, printed string) {
	t.Helper()
	text := crewtest.ReadFile(t, "README.md")
	cookbook := crewtest.ReadFile(t, "man/cookbook.md")
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(text+cookbook, -1) {
		switch block := m[2]; m[1] {
		case "crontab":
			lines = append(lines, strings.TrimSpace(strings.SplitN(block, " ", 6)[5]))
		case "console":
			line, rest, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
			lines, printed = append(lines, line), rest
		case "sh":
			block = regexp.MustCompile(`(?m)(^|  +)# .*$`).ReplaceAllString(block, "")
			// A line that begins with a blank continues the command above it.
			for _, line := range regexp.MustCompile(`(?m)^\S.*(\n +.*)*$`).FindAllString(block, -1) {
				lines = append(lines, strings.TrimRight(line, " "))
			}
		default:
			require.Fail(t, "unknown kind of block: "+m[1])
		}
	}
	return lines, printed
}

// TestReadme runs the README and the cookbook from top to bottom. With CREW_SOAK, go installs crew as
// written there; otherwise the test copies programs that are already built.
func TestReadme(t *testing.T) {
	t.Parallel()
	lines, printed := readmeLines(t)
	steps := readSteps(t, "readme")
	var known []string
	for _, p := range steps {
		if p.line != "" {
			known = append(known, p.line)
		}
	}
	runs := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(cannot, line) })
	require.Equal(t, known, runs, "the command lines of the README and the cookbook, and their outcomes here")
	require.Len(t, lines, len(runs)+len(cannot))

	s := newSandbox(t, readFiles(t, "readme"), engine, "crew/runner/steer/control/crew-top", "crew/runner/show/web/crew-web")
	s.setUpGo()
	s.files = s.readAll()
	repository, err := os.Getwd()
	require.NoError(t, err)
	rewrite := strings.NewReplacer("/films/", s.dir+"/films/", "--listen 0.0.0.0", "--listen 0.0.0.0:0", "--dir hub", "--dir ~/hub", "hub/admin.json", "~/hub/admin.json", "--jitter 10m", "--jitter 10ms")
	times := regexp.MustCompile(`[0-9.]+[mµ]?s\b`)
	for _, p := range steps {
		script := p.line
		if as := p.notes["as"]; as != "" {
			script = strings.ReplaceAll(as, "LINE", p.line)
		}
		if s.lacks(script) {
			continue
		}
		script = rewrite.Replace(script)
		want, until := p.notes["want"], p.notes["until"]
		if until != "" {
			s.background(strings.TrimSuffix(script, "&"), rewrite.Replace(until))
			continue
		}
		if regexp.MustCompile(`\bgo (run|install)|^for n in 1 7`).MatchString(p.line) {
			script = "cd " + repository + " && " + script
		}
		out, status := s.run("bash", script)
		if want == "as printed" {
			require.Equal(t, times.ReplaceAllString(printed, "TIME"), times.ReplaceAllString(strings.TrimLeft(out, "\n"), "TIME"))
			continue
		}
		got := s.outcome(strings.ReplaceAll(sorted(out), s.home, "~"), status)
		if strings.HasPrefix(want, "^") {
			require.Regexp(t, want, got, script)
		} else {
			require.Equal(t, want, got, script)
		}
	}
}

// setUpGo sets up the directories where go installs crew. Without CREW_SOAK, go only copies programs
// that are already built.
func (s *sandbox) setUpGo() {
	tool, err := exec.LookPath("go")
	require.NoError(s.t, err)
	caches, err := exec.Command(tool, "env", "GOMODCACHE", "GOCACHE").Output()
	require.NoError(s.t, err)
	modules, objects, _ := strings.Cut(strings.TrimSpace(string(caches)), "\n")
	path := filepath.Join(s.home, "go")
	s.env = append(s.env, "GO="+tool, "GOBIN=", "GOPATH="+path, "GOMODCACHE="+modules, "GOCACHE="+objects, "BUILT="+s.programs, "MANPATH=",
		"PATH="+filepath.Join(s.dir, "bin")+":"+filepath.Join(path, "bin")+":"+s.programs+":"+os.Getenv("PATH"))
}

// lacks reports whether a script needs a program that is not installed.
func (s *sandbox) lacks(script string) bool {
	for _, tool := range []string{"jq", "man", "make", "script"} {
		if !regexp.MustCompile(`(^|[ |;'])(\./)?` + regexp.QuoteMeta(tool) + ` `).MatchString(script) {
			continue
		}
		if _, err := exec.LookPath(tool); err != nil {
			s.t.Logf("%v: not run: %s", err, script)
			return true
		}
	}
	return false
}

// background starts a script, which gets SIGTERM after the test, and waits until a condition holds.
func (s *sandbox) background(script, until string) {
	cmd := s.command("bash", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
		s.t.Logf("%s\n%s", script, out.String())
	})
	_, status := s.run("bash", "for n in $(seq 2400); do { "+until+"; } && exit; sleep 0.05; done; exit 1")
	require.Zero(s.t, status, "%s: %s", script, until)
}

// The uses in the README are in the man page, too, though the README may leave out the program that
// feeds the command and its last words.
func TestReadmeComingFrom(t *testing.T) {
	uses, _, tables := usesOfManPage(t)
	_, section, found := strings.Cut(crewtest.ReadFile(t, "README.md"), "\n## Coming from other tools\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.ReplaceAll(section, `\|`, "|")
	rows := regexp.MustCompile("(?m)^\\| `(.*)` \\| `(.*?)`").FindAllStringSubmatch(section, -1)
	require.Len(t, rows, 6)
	for _, row := range rows {
		require.True(t, slices.ContainsFunc(slices.Concat(uses, slices.Concat(tables...)), func(u use) bool {
			return strings.Contains(u.theirs, row[1]) && strings.Contains(u.crew, row[2])
		}), "%q is not in the man page", row[1:])
	}
}
