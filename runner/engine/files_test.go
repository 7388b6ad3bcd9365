package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/wiring"
)

// travel is a runFiles in one directory and a workFiles in another.
type travel struct {
	t           *testing.T
	s           *session
	c           *runFiles
	p           *workFiles
	here, there string
	said        crewtest.Output
}

func newTravel(t *testing.T, files wiring.Files) *travel {
	server, err := startServer(&server.Options{StoreDir: t.TempDir(), DontListen: true}, privateLimits)
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	v := &travel{t: t, here: t.TempDir(), there: filepath.Join(t.TempDir(), "work")}
	v.s, err = dial("", nil, nats.InProcessServer(server))
	require.NoError(t, err)
	t.Cleanup(v.s.close)
	v.p = newWorkFiles(v.s, v.there)
	t.Chdir(v.here)
	for name, text := range map[string]string{"base": "base", "data/a": "A", "data/b": "A", "run": "#!/bin/sh\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	require.NoError(t, os.Chmod("run", 0o750))
	v.c, err = newRunFiles(t.Context(), v.s, "RUN", files, func(text string) { fmt.Fprintln(&v.said, text) })
	require.NoError(t, err)
	return v
}

// run has a task whose record is a name take files, do something, and bring files back.
func (v *travel) run(id uint64, name string, do func()) error {
	tk := &task.Task{ID: id, Records: [][]string{{name}}}
	a := &Attempt{ID: ID{"RUN", 1, id, 1}}
	if err := v.c.send(v.t.Context(), task.Attempt{Task: tk, Number: 1}, a); err != nil {
		return err
	}
	defer func() { v.c.release(a.Take) }()
	f := &Final{Facts: task.Facts{Host: "web1", Outcome: task.OK}}
	defer v.p.leave(a)
	err := v.p.take(v.t.Context(), a)
	require.NoError(v.t, err)
	do()
	f.Returned, err = v.p.bring(v.t.Context(), a)
	require.NoError(v.t, err)
	if err = v.c.fetch(v.t.Context(), tk, f); err == nil && len(f.Returned) > 0 {
		err = v.c.fetch(v.t.Context(), tk, f) // as after a submitter that has recorded nothing
	}
	return err
}

// objects counts the objects that there are, and what is left of old ones.
func (v *travel) objects() (n int) {
	o, err := v.s.objects(v.t.Context())
	require.NoError(v.t, err)
	info, err := o.stream.Info(v.t.Context())
	require.NoError(v.t, err)
	return int(info.State.Msgs)
}

func named(prefix string) func(*task.Task) []string {
	return func(t *task.Task) []string { return []string{prefix + t.Records[0][0]} }
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func TestFilesTravel(t *testing.T) {
	v := newTravel(t, wiring.Files{Base: []string{"base", "run"}, Transfer: named("data/"), Return: named("out/"), Cleanup: true})
	fixed := v.objects()
	require.NoError(t, v.run(1, "a", func() {
		require.Equal(t, "A", read(t, filepath.Join(v.there, "data/a")))
		require.Equal(t, "base", read(t, filepath.Join(v.there, "base")))
		info, err := os.Stat(filepath.Join(v.there, "run"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o750), info.Mode())
		sent := v.objects()
		require.NoError(t, v.run(2, "b", func() { require.Equal(t, sent, v.objects(), "the same content is sent once") }))
		require.NoError(t, os.MkdirAll(filepath.Join(v.there, "out"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(v.there, "out/a"), []byte("result"), 0o600))
	}))
	require.Equal(t, "result", read(t, "out/a"))
	info, err := os.Stat("out/a")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Equal(t, "task 2 has left no file out/b on web1: nothing is returned\n", v.said.String())
	require.Equal(t, fixed, v.objects())
	left, err := os.ReadDir(v.there)
	require.NoError(t, err)
	require.Len(t, left, 2, "the base files")
	v.p.end("OTHER")
	require.DirExists(t, v.there)
	v.p.end("RUN")
	require.NoDirExists(t, v.there)
	v.c.close()
	require.Zero(t, v.objects())
}

// TestFilesStay has no cleanup: a file that is there is not fetched again.
func TestFilesStay(t *testing.T) {
	v := newTravel(t, wiring.Files{Transfer: named("data/")})
	there := filepath.Join(v.there, "data/a")
	require.NoError(t, v.run(1, "a", func() {}))
	before, err := os.Stat(there)
	require.NoError(t, err)
	require.NoError(t, v.run(2, "a", func() {}))
	after, err := os.Stat(there)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.NoError(t, os.WriteFile("data/a", []byte("anew"), 0o644))
	require.NoError(t, v.run(3, "a", func() {}))
	require.Equal(t, "anew", read(t, there))
	require.NoError(t, os.WriteFile(there, []byte("spoilt"), 0o644))
	require.NoError(t, v.run(4, "a", func() {}))
	require.Equal(t, "anew", read(t, there))
}

// TestFilesHere has the worker in the submitter's directory, as on this machine: what
// comes from there is not removed.
func TestFilesHere(t *testing.T) {
	v := newTravel(t, wiring.Files{Base: []string{"base"}, Transfer: named("data/"), Return: named("data/out."), Cleanup: true})
	v.p = newWorkFiles(v.s, "")
	before, err := os.Stat("data/a")
	require.NoError(t, err)
	require.NoError(t, v.run(1, "a", func() { require.NoError(t, os.WriteFile("data/out.a", []byte("result"), 0o600)) }))
	v.p.end("RUN")
	after, err := os.Stat("data/a")
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.FileExists(t, "base")
	require.NoError(t, v.run(2, "a", func() { require.NoError(t, os.WriteFile("data/a", []byte("changed"), 0o600)) }))
	require.Equal(t, "changed", read(t, "data/a"))
}

func TestFilesRefused(t *testing.T) {
	v := newTravel(t, wiring.Files{Transfer: named(""), Return: named("")})
	require.NoError(t, os.Symlink(t.TempDir(), "out"))
	require.NoError(t, os.WriteFile("out/x", nil, 0o666))
	for name, want := range map[string]string{
		"nothing":    "send a file: open nothing: no such file or directory",
		"data":       "send a file: open data: it is not a regular file",
		"../x":       `return a file: "../x" is no file below the working directory: give it an absolute path`,
		"data/./../": `return a file: "../" is no file below`,
		"":           `return a file: "" is no file below`,
	} {
		require.ErrorContains(t, v.run(1, name, func() {}), want)
	}
	require.ErrorContains(t, v.run(2, "out/x", func() {}), "return out/x of task 2 from web1: mkdirat out: statat out: path escapes from parent")
	abs := filepath.Join(t.TempDir(), "sub/f")
	require.NoError(t, os.MkdirAll(filepath.Dir(abs), 0o777))
	require.NoError(t, os.WriteFile(abs, []byte("1"), 0o666))
	none := v.objects()
	_, err := newRunFiles(t.Context(), v.s, "OTHER", wiring.Files{Base: []string{"base", "missing"}}, nil)
	require.ErrorContains(t, err, "missing")
	require.Equal(t, none, v.objects(), "what was sent for a run that cannot begin is removed")
	require.NoError(t, v.run(3, abs, func() { require.NoError(t, os.WriteFile(abs, []byte("2"), 0o666)) }))
	require.Equal(t, "2", read(t, abs))
	v.c.close()
	require.Zero(t, v.objects())
}
