package stories

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"crew/runner/crewtest"
)

const engine = "crew/runner/far/engine/crew-engine"

// sh begins a program that stands in for one that needs a network or is not installed everywhere.
const sh = "#!/bin/sh\n"

// step is a command line, or a step of the test itself if line is empty, with its annotations.
type step struct {
	line  string
	notes map[string]string
}

// readSteps returns the steps of a file in testdata. Steps are separated by empty lines. The lines of a
// step are its command line, and annotations:
//
//	as:     the script to run, with LINE in place of the command line
//	want:   the outcome (see sandbox.outcome); a regular expression if it begins with ^
//	until:  a condition to wait for; the command line keeps running in the background
func readSteps(t *testing.T, name string) (steps []step) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSpace(crewtest.ReadFile(t, "runner/stories/testdata/"+name+".steps")), "\n\n") {
		p := step{notes: map[string]string{}}
		var command []string
		for line := range strings.SplitSeq(block, "\n") {
			key, value, found := strings.Cut(line, ": ")
			switch {
			case strings.HasPrefix(line, "# "):
			case found && slices.Contains([]string{"as", "want", "until", "crew", "theirs"}, key):
				p.notes[key] = value
			default:
				command = append(command, line)
			}
		}
		p.line = strings.Join(command, "\n")
		steps = append(steps, p)
	}
	return steps
}

// readFiles returns the files of an archive in testdata.
func readFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile("runner/stories/testdata/" + name + ".txtar")
	require.NoError(t, err)
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

// sandbox is a directory in which command lines run one after another.
type sandbox struct {
	t         *testing.T
	dir, home string
	programs  string // directory of crew and its companions
	env       []string
	files     map[string]string // content of dir at the last call of changed
}

// newSandbox makes a sandbox with files. Files in bin come first in PATH, and then crew and the
// programs of the companion packages.
func newSandbox(t *testing.T, files map[string]string, companions ...string) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: t.TempDir(), home: t.TempDir(), programs: filepath.Dir(crewtest.Build(t, "crew"))}
	for _, pkg := range companions {
		crewtest.Build(t, pkg)
	}
	for name, text := range files {
		s.write(name, text)
	}
	s.env = append(os.Environ(), "HOME="+s.home, "TMPDIR="+s.home, "XDG_RUNTIME_DIR="+s.home, "LC_ALL=C", "TERM=xterm",
		"PARALLEL_SHELL=/bin/sh", "PARALLEL=--will-cite", "MAKEFLAGS=", "MAKELEVEL=", "CREW_OPTS=", "CI=", "GITHUB_ACTIONS=",
		"PATH="+filepath.Join(s.dir, "bin")+":"+s.programs+":"+os.Getenv("PATH"))
	s.files = s.readAll()
	return s
}

// write writes a file, which is executable if it begins with #!.
func (s *sandbox) write(name, text string) {
	s.t.Helper()
	mode := fs.FileMode(0o666)
	if strings.HasPrefix(text, "#!") {
		mode = 0o777
	}
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o777))
	crewtest.WriteFile(s.t, path, text, mode)
}

// command returns a command that runs a script in a shell.
func (s *sandbox) command(shell, script string, env ...string) *exec.Cmd {
	cmd := exec.Command(shell, "-c", script)
	cmd.Dir, cmd.Env = s.dir, append(slices.Clip(s.env), env...)
	if strings.Contains(script, "--retries") {
		cmd.Env = append(cmd.Env, "CREW_OPTS=--retry-delay 1ms")
	}
	return cmd
}

// run runs a script and returns its stdout and status.
func (s *sandbox) run(shell, script string, env ...string) (string, int) {
	cmd := s.command(shell, script, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	s.t.Logf("%s\n%s", script, &stderr)
	return stdout.String(), cmd.ProcessState.ExitCode()
}

// sorted returns a text with its lines sorted.
func sorted(text string) string { return strings.Join(slices.Sorted(strings.Lines(text)), "") }

// outcome returns the output of a script, its status, and the files that changed since the last call,
// with | for a newline.
func (s *sandbox) outcome(out string, status int) string {
	var changes []string
	if status != 0 {
		changes = append(changes, fmt.Sprint("status ", status))
	}
	changes = append(changes, s.changed()...)
	return strings.ReplaceAll(out+strings.Join(changes, " "), "\n", "|")
}

// readAll returns the content of all files, except those that hold times and the directories of
// --state.
func (s *sandbox) readAll() map[string]string {
	s.t.Helper()
	files := map[string]string{}
	require.NoError(s.t, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "run" || strings.HasSuffix(name, ".state")):
			return fs.SkipDir
		case !d.Type().IsRegular() || name == "log": // of --joblog
			return nil
		}
		text, err := os.ReadFile(path)
		files[name] = string(text)
		return err
	}))
	return files
}

// changed lists the files that were removed since its last call, and the new and changed files with
// their content.
func (s *sandbox) changed() (list []string) {
	s.t.Helper()
	was := s.files
	s.files = s.readAll()
	for name := range was {
		if _, there := s.files[name]; !there {
			list = append(list, "-"+name)
		}
	}
	for name, text := range s.files {
		before, known := was[name]
		switch {
		case known && text == before:
		case strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".xml"):
			list = append(list, name)
		default:
			list = append(list, name+"="+text)
		}
	}
	slices.Sort(list)
	return list
}
