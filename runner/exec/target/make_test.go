package target

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// making returns a task that makes targets under temporary names.
func making(targets ...string) *task.Task {
	t := &task.Task{ID: 1, Makes: &task.Making{Guessed: true}}
	for _, name := range targets {
		t.Makes.Targets = append(t.Makes.Targets, task.Target{Path: name, Temp: true})
	}
	return t
}

// attempt is an attempt of a test.
type attempt struct {
	task.Attempt
	t    *testing.T
	f    *Files
	open int // descriptors before it began
}

// begin begins an attempt of a task.
func begin(t *testing.T, f *Files, tk *task.Task) *attempt {
	t.Helper()
	a := &attempt{task.Attempt{Task: tk, Number: 1}, t, f, descriptors(t)}
	if res := f.Begin(a.Attempt); res != nil {
		require.NoError(t, res.Err)
	}
	return a
}

// temp returns the temporary name of a target.
func (a *attempt) temp(name string) string { return a.Task.Makes.TempName(name) }

// write writes a file under the temporary name of a target.
func (a *attempt) write(name, text string) *attempt {
	a.t.Helper()
	require.NoFileExists(a.t, a.temp(name))
	crewtest.WriteFile(a.t, a.temp(name), text, 0o666)
	return a
}

// tree is write for a directory with a file in it.
func (a *attempt) tree(name, text string) *attempt {
	a.t.Helper()
	require.NoError(a.t, os.MkdirAll(a.temp(name)+"/sub", 0o777))
	crewtest.WriteFile(a.t, a.temp(name)+"/sub/file", text, 0o666)
	return a
}

// end ends the attempt and returns the final outcome. No temporary name and no descriptor may be left.
func (a *attempt) end(o task.Outcome) (task.Outcome, error) {
	a.t.Helper()
	r := &task.Result{Task: a.Task, Attempt: a.Number, Outcome: o}
	a.f.End(r)
	require.Empty(a.t, a.f.begun)
	require.Empty(a.t, temporary(a.t))
	require.Empty(a.t, marks(a.t))
	require.LessOrEqual(a.t, descriptors(a.t), a.open)
	return r.Outcome, r.Err
}

// ok ends a successful attempt and checks that its files are kept.
func (a *attempt) ok() {
	a.t.Helper()
	o, err := a.end(task.OK)
	require.NoError(a.t, err)
	require.Equal(a.t, task.OK, o)
}

// fails ends a successful attempt and checks that it fails because its files cannot be kept.
func (a *attempt) fails(text string) {
	a.t.Helper()
	o, err := a.end(task.OK)
	require.EqualError(a.t, err, text)
	require.Equal(a.t, task.NoOutput, o)
}

// refused returns why an attempt of a task cannot start.
func refused(t *testing.T, f *Files, tk *task.Task) string {
	t.Helper()
	a := task.Attempt{Task: tk, Number: 1}
	res := f.Begin(a)
	require.NotNil(t, res)
	require.Equal(t, task.StartFailed, res.Outcome)
	require.Equal(t, 126, res.Code)
	require.Empty(t, f.begun)
	require.Empty(t, tk.Makes.Temp)
	return res.Err.Error()
}

// temporary returns the temporary names below the working directory, except mark files.
func temporary(t *testing.T) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, tempStart) && len(name) > task.TempLen {
			list = append(list, path)
		}
		return err
	}))
	return list
}

// marks returns the mark files in the working directory.
func marks(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(tempStart + strings.Repeat("?", digits) + ".")
	require.NoError(t, err)
	return list
}

func put(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
	crewtest.WriteFile(t, name, text, 0o666)
}

var (
	plain   = Config{}
	journal = Config{Journal: true, Directories: true}
)

// descriptors returns the number of open descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(list)
}

// Directories that cannot be exchanged are renamed one after the other.
func TestMoveDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "d/file", "old")
	f := New(journal)
	a := begin(t, f, making("d")).tree("d", "new")
	o := &f.begun[a.Task.Makes.Temp][0]
	old, err := f.swap(o)
	require.NoError(t, err)
	require.Equal(t, "new", crewtest.ReadFile(t, "d/sub/file"))
	require.Equal(t, "old", crewtest.ReadFile(t, old+"/file"))
	_, err = f.swap(o)
	require.ErrorIs(t, err, unix.ENOENT)
	require.Equal(t, "new", crewtest.ReadFile(t, "d/sub/file"), "it is moved back")
	require.NoError(t, os.RemoveAll(old))
	a.fails("d was not made")
}

// Leftovers are removed by a run that makes the same target, unless another run uses them.
func TestLeftovers(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdTarget+"="+dir+"/a")
	other := crewtest.New(t, cmd).Start()
	other.Says(other.Stdout, "begun")
	for _, name := range []string{".crew-12345678.a", ".crew-12345678.b", ".crew-ABCDEFGH.a"} {
		put(t, name, "")
	}

	made := func(f *Files) []string {
		a := begin(t, f, making("a")).write("a", "")
		f.End(&task.Result{Task: a.Task, Attempt: 1, Outcome: task.OK})
		return temporary(t)
	}
	left := made(New(plain))
	require.Len(t, left, 3)
	require.NotContains(t, left, ".crew-12345678.a")
	require.NoError(t, os.Remove(".crew-ABCDEFGH.a"))

	f := New(plain)
	require.Len(t, made(f), 2)
	other.Kill()
	require.Equal(t, []string{".crew-12345678.b"}, made(f))
	require.Empty(t, marks(t))
}

// Attempts share the descriptor of a directory.
func TestLocks(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink(".", "link"))
	f := New(plain)
	open := descriptors(t)
	a := begin(t, f, making("a", "link/a2", "./a3"))
	b := begin(t, f, &task.Task{ID: 2, Makes: making("b").Makes}).write("b", "")
	require.LessOrEqual(t, descriptors(t), open+2, "one for the directory, or for each attempt")
	f.End(&task.Result{Task: a.Task, Attempt: 1, Outcome: task.Exit})
	for _, other := range []*Files{f, New(plain)} {
		require.NoError(t, os.RemoveAll("b"))
		for _, d := range other.dirs.byID {
			d.once = sync.Once{} // so that it reads the directory now
		}
		c := begin(t, other, &task.Task{ID: 3, Makes: making("b").Makes}).write("b", "")
		other.End(&task.Result{Task: c.Task, Attempt: 1, Outcome: task.OK})
		require.FileExists(t, b.temp("b"))
	}

	// With few descriptors there are fewer marks.
	f = New(plain)
	f.dirs.maxOpen = 0
	a = begin(t, f, making("a")).write("a", "")
	require.Zero(t, f.dirs.open)
	f.End(&task.Result{Task: a.Task, Attempt: 1, Outcome: task.OK})
	require.FileExists(t, "a")
}

// A run can forget directories that it has used.
func TestManyDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	f := New(plain)
	for i := range maxDirs {
		f.dirs.byID[[2]uint64{0, ^uint64(i)}] = &dir{}
	}
	put(t, ".crew-12345678.a", "")
	begin(t, f, making("a")).write("a", "").ok()
	require.Len(t, f.dirs.byID, 1)
}
