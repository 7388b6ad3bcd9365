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
	"crew/runner/task"
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
	t *testing.T
	f *Files
}

// begin begins an attempt of a task.
func begin(t *testing.T, f *Files, tk *task.Task) *attempt {
	t.Helper()
	a := &attempt{task.Attempt{Task: tk, Number: 1}, t, f}
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
	require.NoError(a.t, os.WriteFile(a.temp(name), []byte(text), 0o666))
	return a
}

// tree is write for a directory with a file in it.
func (a *attempt) tree(name, text string) *attempt {
	a.t.Helper()
	require.NoError(a.t, os.MkdirAll(a.temp(name)+"/sub", 0o777))
	require.NoError(a.t, os.WriteFile(a.temp(name)+"/sub/file", []byte(text), 0o666))
	return a
}

// end ends the attempt, and returns its outcome then. No temporary name is left.
func (a *attempt) end(o task.Outcome) (task.Outcome, error) {
	a.t.Helper()
	r := &task.Result{Task: a.Task, Attempt: a.Number, Outcome: o}
	a.f.End(r)
	require.Empty(a.t, a.f.works)
	require.Empty(a.t, temporary(a.t))
	require.Empty(a.t, marks(a.t))
	return r.Outcome, r.Err
}

// ok has an attempt that succeeds keep what it has made.
func (a *attempt) ok() {
	a.t.Helper()
	o, err := a.end(task.OK)
	require.NoError(a.t, err)
	require.Equal(a.t, task.OK, o)
}

// fails has an attempt that succeeds fail, as what it has made cannot be kept.
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
	require.Empty(t, f.works)
	require.Empty(t, tk.Makes.Temp)
	return res.Err.Error()
}

// temporary returns the temporary names below the working directory, but not those of marks.
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

// marks returns the files of marks in the working directory.
func marks(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(tempStart + strings.Repeat("?", digits) + ".")
	require.NoError(t, err)
	return list
}

func put(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

var (
	plain   = Config{}
	journal = Config{Journal: true, Directories: true}
)

// Whatever the outcome, the final name has what it had, or all that was made.
func TestOutcomes(t *testing.T) {
	for o := task.OK; o < task.Outcomes; o++ {
		t.Run(o.String(), func(t *testing.T) {
			t.Chdir(t.TempDir())
			put(t, "old", "old")
			open := descriptors(t)
			a := begin(t, New(plain), making("old", "new", "sub/never")).write("old", "whole").write("new", "whole")
			if o == task.OK {
				a.write("sub/never", "whole")
			}
			require.Equal(t, "old", read(t, "old"))
			got, err := a.end(o)
			require.NoError(t, err)
			require.Equal(t, open, descriptors(t))
			require.Equal(t, o, got)
			if o == task.OK {
				require.Equal(t, "wholewholewhole", read(t, "old")+read(t, "new")+read(t, "sub/never"))
			} else {
				require.Equal(t, "old", read(t, "old"))
				require.NoFileExists(t, "new")
			}
		})
	}
}

// descriptors returns the number of open descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(list)
}

// If one target is missing, none is kept.
func TestNotMade(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "a", "old")
	begin(t, New(plain), making("a", "b")).write("a", "new").fails("b was not made")
	require.Equal(t, "old", read(t, "a"))
}

func TestNoTemporaryName(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, cfg := range []Config{plain, journal, {DryRun: true}} {
		tk := making("sub/a")
		tk.Makes.Targets[0].Temp = cfg.DryRun
		a := begin(t, New(cfg), tk)
		require.Empty(t, tk.Makes.Temp)
		if cfg.DryRun {
			a.ok()
		} else {
			a.fails("sub/a was not made")
		}
		require.NoDirExists(t, "sub")
	}
}

func TestOddNames(t *testing.T) {
	t.Chdir(t.TempDir())
	names := []string{
		"a.tar.gz", "-rf", "new\nline", "\xff\xfe", " ", "a b/'\"", ".crew-", ".crew-00000000.a", "./x", "z/../y", "sub//z", ".hidden",
		strings.Repeat("n", unix.NAME_MAX-task.TempLen), "../" + filepath.Base(t.TempDir()) + "/up",
	}
	for _, name := range names {
		put(t, "z/file", "")
		for range 2 {
			a := begin(t, New(plain), making(name))
			require.Equal(t, filepath.Base(name), filepath.Base(a.temp(name))[task.TempLen:])
			require.NoError(t, os.WriteFile(a.temp(name), []byte(name), 0o666))
			r := &task.Result{Task: a.Task, Attempt: 1, Outcome: task.OK}
			a.f.End(r)
			require.NoError(t, r.Err)
			require.Equal(t, name, read(t, name))
		}
	}
	long := strings.Repeat("n", unix.NAME_MAX-task.TempLen+1)
	require.Equal(t, long+" cannot be made: its name is too long, as a temporary one has 15 bytes more", refused(t, New(plain), making("ok", long)))
	for _, name := range []string{"", "sub/", ".", "a/.."} {
		require.Contains(t, refused(t, New(plain), making(name)), "cannot be made: it does not end with a name")
	}
	require.Equal(t, "open z/file/a: not a directory", refused(t, New(plain), making("z/file/a/b")))
	require.Equal(t, "open z/file: not a directory", refused(t, New(plain), making("z/file/a")))
}

// Paths are in the task's directory; as in the shell, a link before a .. counts.
func TestDirectoryOfTask(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "real/deep/file", "")
	require.NoError(t, os.Mkdir("work", 0o777))
	require.NoError(t, os.Symlink("../real/deep", "work/link"))
	for _, cfg := range []Config{{Dir: "work"}, {}} {
		tk := making("link/../a", "b")
		if cfg.Dir == "" {
			tk.Dir = "work"
		}
		a := begin(t, New(cfg), tk)
		put(t, "work/"+a.temp("b"), "b")
		put(t, "real/"+a.temp("a"), "a")
		a.ok()
		require.Equal(t, "ab", read(t, "real/a")+read(t, "work/b"))
		require.NoError(t, os.Remove("real/a"))
	}
}

// A link stays, and what it leads to is replaced; what was made may be a link.
func TestLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "data", "old")
	require.NoError(t, os.Symlink("data", "link"))
	begin(t, New(plain), making("link")).write("link", "new").ok()
	require.Equal(t, "new", read(t, "data"))
	to, err := os.Readlink("link")
	require.NoError(t, err)
	require.Equal(t, "data", to)

	a := begin(t, New(plain), making("other"))
	require.NoError(t, os.Symlink("data", a.temp("other")))
	a.ok()
	require.Equal(t, "new", read(t, "other"))

	a = begin(t, New(plain), making("data"))
	require.NoError(t, os.Link("data", a.temp("data")))
	a.ok()

	a = begin(t, New(plain), making("pipe"))
	require.NoError(t, unix.Mkfifo(a.temp("pipe"), 0o666))
	a.fails("pipe cannot be made: it is a device, a pipe or a socket")
	require.NoError(t, unix.Mkfifo("pipe", 0o666))
	require.NoError(t, os.Symlink("pipe", "stdout"))
	for _, name := range []string{"pipe", "stdout"} {
		require.Equal(t, name+" cannot be made: it is a device, a pipe or a socket", refused(t, New(plain), making(name)))
	}
	require.NoError(t, os.Mkdir("dir", 0o777))
	require.NoError(t, os.Symlink("dir", "to-dir"))
	require.Equal(t, "to-dir is a directory, and nothing tells whether it is whole: add --state DIR, whose journal does", refused(t, New(plain), making("to-dir")))
	require.NoError(t, os.Symlink("nowhere", "to-nowhere"))
	begin(t, New(plain), making("to-nowhere")).write("to-nowhere", "new").ok()
	require.Equal(t, "new", read(t, "nowhere"))
}

func TestDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	f := New(journal)
	for _, text := range []string{"first", "second"} {
		begin(t, f, making("d")).tree("d", text).ok()
		require.Equal(t, text, read(t, "d/sub/file"))
		put(t, "d/extra", "")
	}
	begin(t, f, making("d")).fails("d was not made")

	o, err := begin(t, f, making("d")).tree("d", "part").end(task.Signal)
	require.NoError(t, err)
	require.Equal(t, task.Signal, o)
	require.Equal(t, "second", read(t, "d/sub/file"))

	begin(t, f, making("d")).write("d", "").fails("replace d: is a directory")
	put(t, "file", "")
	begin(t, f, making("file")).tree("file", "").fails("replace file: not a directory")
	require.NoError(t, os.Mkdir("empty", 0o777))
	begin(t, f, making("empty")).tree("empty", "").ok()
}

// Without a journal nothing tells whether a directory is whole.
func TestDirectoriesWithoutJournal(t *testing.T) {
	t.Chdir(t.TempDir())
	const hint = "d is a directory, and nothing tells whether it is whole: add --state DIR, whose journal does"
	begin(t, New(plain), making("d")).tree("d", "").fails(hint)
	require.NoError(t, os.Mkdir("d", 0o777))
	require.Equal(t, hint, refused(t, New(plain), making("d")))
	require.Error(t, Config{Directories: true}.Validate())
	require.NoError(t, journal.Validate())
}

// Where directories cannot be exchanged, they are moved.
func TestMoveDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "d/file", "old")
	f := New(journal)
	a := begin(t, f, making("d")).tree("d", "new")
	o := &f.works[number{1, 1}].outs[0]
	old, err := f.move(o)
	require.NoError(t, err)
	require.Equal(t, "new", read(t, "d/sub/file"))
	require.Equal(t, "old", read(t, old+"/file"))
	_, err = f.move(o)
	require.ErrorIs(t, err, unix.ENOENT)
	require.Equal(t, "new", read(t, "d/sub/file"), "it is moved back")
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
	f.dirs.most = 0
	begin(t, f, making("a")).write("a", "")
	require.Zero(t, f.dirs.open)
	f.End(&task.Result{Task: a.Task, Attempt: 1, Outcome: task.OK})
	require.FileExists(t, "a")
}

// A run can forget the directories that it has seen.
func TestManyDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	f := New(plain)
	for i := range mostDirs {
		f.dirs.byID[id{ino: ^uint64(i)}] = &dir{}
	}
	put(t, ".crew-12345678.a", "")
	begin(t, f, making("a")).write("a", "").ok()
	require.Len(t, f.dirs.byID, 1)
}
