package travel

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/outbox"
)

// pair is a Submitter in one directory and a Worker in another.
type pair struct {
	t           *testing.T
	s           [2]*Blobs // of the submitter and the worker
	c           *Submitter
	p           *Worker
	here, there string
	cleanup     bool
	notices     crewtest.Output
}

// newBlobs returns the blobs of two users of a server.
func newBlobs(t *testing.T) (both [2]*Blobs) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(time.Minute))
	for i, user := range []string{"ada", "web1"} {
		nc, err := nats.Connect("", nats.InProcessServer(s), nats.UseOldRequestStyle())
		require.NoError(t, err)
		t.Cleanup(nc.Close)
		requester, err := outbox.NewRequester(nc)
		require.NoError(t, err)
		both[i] = NewBlobs(requester, user)
	}
	return both
}

// newWorker returns a Worker in a directory.
func (v *pair) newWorker(dir string) *Worker {
	store := spool.New(1<<20, v.t.TempDir())
	v.t.Cleanup(func() { store.Close() })
	return NewWorker(v.s[1], store, dir)
}

func newPair(t *testing.T, files Files) *pair {
	v := &pair{t: t, here: t.TempDir(), there: filepath.Join(t.TempDir(), "work")}
	v.s = newBlobs(t)
	v.p = v.newWorker(v.there)
	t.Chdir(v.here)
	for name, text := range map[string]string{"base": "base", "data/a": "A", "data/b": "A", "data/empty": "", "run": "#!/bin/sh\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		crewtest.WriteFile(t, name, text, 0o644)
	}
	require.NoError(t, os.Chmod("run", 0o750))
	var err error
	v.c, err = NewSubmitter(v.s[0], files, func(text string) { fmt.Fprintln(&v.notices, text) })
	require.NoError(t, err)
	return v
}

// run makes a task with one record, name, take files, calls do, and returns files.
func (v *pair) run(id uint64, name string, do func()) error {
	tk := &task.Task{ID: id, Records: [][]string{{name}}}
	a := &Trip{User: "ada", Cleanup: v.cleanup}
	var err error
	if a.Take, a.Return, err = v.c.Send(tk); err != nil {
		return err
	}
	defer func() { v.c.Release(a.Take) }()
	f := &task.Facts{Host: "web1", Outcome: task.OK}
	defer v.p.Release(a)
	require.NoError(v.t, v.p.Fetch(v.t.Context(), "RUN", a))
	do()
	back, err := v.p.Collect(a, true)
	require.NoError(v.t, err)
	defer v.drop(back)
	return v.c.Fetch(v.t.Context(), "web1", tk, f, back)
}

// drop drops the blobs of returned files.
func (v *pair) drop(back []File) {
	for _, f := range back {
		v.s[1].Drop(f.Blob)
	}
}

// at returns the path of a file of the worker.
func (v *pair) at(name string) string { return filepath.Join(v.there, name) }

func stat(t *testing.T, name string) os.FileInfo {
	info, err := os.Stat(name)
	require.NoError(t, err)
	return info
}

func named(prefix string) func(*task.Task) []string {
	return func(t *task.Task) []string { return []string{prefix + t.Records[0][0]} }
}

func read(t *testing.T, name string) string {
	return crewtest.ReadFile(t, name)
}

func TestFilesTravel(t *testing.T) {
	v := newPair(t, Files{Base: []string{"base", "run"}, Transfer: named("data/"), Return: named("out/")})
	v.cleanup = true
	fixed := v.s[0].Count()
	require.NoError(t, v.run(1, "a", func() {
		require.Equal(t, "A", read(t, v.at("data/a")))
		require.Equal(t, "base", read(t, v.at("base")))
		require.Equal(t, os.FileMode(0o750), stat(t, v.at("run")).Mode())
		require.NoError(t, v.run(2, "b", func() {}))
		require.NoError(t, os.MkdirAll(v.at("out"), 0o777))
		crewtest.WriteFile(t, v.at("out/a"), "result", 0o600)
	}))
	require.Equal(t, "result", read(t, "out/a"))
	require.Equal(t, os.FileMode(0o600), stat(t, "out/a").Mode())
	require.Equal(t, "task 2 left no file out/b on web1: nothing to return\n", v.notices.String())
	require.Equal(t, fixed, v.s[0].Count())
	require.Zero(t, v.s[1].Count())
	left, err := os.ReadDir(v.there)
	require.NoError(t, err)
	require.Len(t, left, 2, "only the base files")
	v.p.CleanUp("OTHER")
	require.DirExists(t, v.there)
	v.p.CleanUp("RUN")
	require.NoDirExists(t, v.there)
}

// Without cleanup, a file that is still there is not fetched again.
func TestFilesStay(t *testing.T) {
	v := newPair(t, Files{Transfer: named("data/")})
	there := v.at("data/a")
	require.NoError(t, v.run(1, "a", func() {}))
	require.NoError(t, os.Chtimes(there, time.Time{}, time.Unix(1e9, 0))) // long ago, so that the time can be relied on
	before := stat(t, there)
	require.NoError(t, v.run(2, "a", func() {}))
	require.True(t, os.SameFile(before, stat(t, there)))
	crewtest.WriteFile(t, "data/a", "anew", 0o644)
	require.NoError(t, v.run(5, "empty", func() { require.Empty(t, read(t, v.at("data/empty"))) }))
	require.NoError(t, v.run(3, "a", func() {}))
	require.Equal(t, "anew", read(t, there))
	crewtest.WriteFile(t, there, "spoilt", 0o644)
	require.NoError(t, v.run(4, "a", func() {}))
	require.Equal(t, "anew", read(t, there))
}

// A task changes a file as soon as it is there without changing its time. The clock of the test is
// years behind the times of the files, so each file counts as just written.
func TestFileChangedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newPair(t, Files{Transfer: named("data/")})
		path := v.at("data/a")
		require.NoError(t, v.run(1, "a", func() {
			was := read(t, path)
			written := stat(t, path).ModTime()
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("B"), len(was)), 0o644))
			require.NoError(t, os.Chtimes(path, written, written))
		}))
		require.NoError(t, v.run(2, "a", func() { require.NotContains(t, read(t, path), "B") }))
	})
}

// The worker runs in the submitter's directory, as on this machine: the submitter's files are not
// removed.
func TestFilesHere(t *testing.T) {
	v := newPair(t, Files{Base: []string{"base"}, Transfer: named("data/"), Return: named("data/out.")})
	v.p, v.cleanup = v.newWorker(""), true
	before := stat(t, "data/a")
	require.NoError(t, v.run(1, "a", func() { crewtest.WriteFile(t, "data/out.a", "result", 0o600) }))
	v.p.CleanUp("RUN")
	require.True(t, os.SameFile(before, stat(t, "data/a")))
	require.FileExists(t, "base")
	require.NoError(t, v.run(2, "a", func() { crewtest.WriteFile(t, "data/a", "changed", 0o600) }))
	require.Equal(t, "changed", read(t, "data/a"))
}

// Only regular files below the directory travel, in either direction, even if links lead elsewhere.
func TestFilesRefused(t *testing.T) {
	rows, _ := crewtest.Rows[struct {
		Name           string
		Sent           bool
		Made, LeadsOut string // the file, or a link out of the directory, that the task makes
		Error          string // "" if the file is left out
	}]("testdata/refused.jsonl")
	v := newPair(t, Files{Return: named("")})
	require.NoError(t, os.Symlink(t.TempDir(), "out"))
	crewtest.WriteFile(t, "out/x", "", 0o666)
	secret := filepath.Join(t.TempDir(), "secret")
	crewtest.WriteFile(t, secret, "", 0o666)
	for _, c := range rows {
		if v.c.files.Transfer = nil; c.Sent {
			v.c.files.Transfer = named("")
		}
		err := v.run(2, c.Name, func() {
			if c.Made != "" {
				require.NoError(t, os.MkdirAll(v.at(filepath.Dir(c.Made)), 0o777))
				crewtest.WriteFile(t, v.at(c.Made), "", 0o666)
			}
			if c.LeadsOut != "" {
				to := secret
				if c.LeadsOut != c.Name {
					to = filepath.Dir(secret)
				}
				require.NoError(t, os.Symlink(to, v.at(c.LeadsOut)))
			}
		})
		if c.Error != "" {
			require.ErrorContains(t, err, c.Error)
			continue
		}
		require.NoError(t, err)
		require.NoFileExists(t, c.Name)
		require.Contains(t, v.notices.String(), "task 2 left no file "+c.Name+" on web1")
	}
	require.Zero(t, v.s[0].Count()+v.s[1].Count())
	_, err := NewSubmitter(v.s[0], Files{Base: []string{"base", "missing"}}, nil)
	require.ErrorContains(t, err, "missing")
}

// A made file is returned under its temporary name, and nothing of it stays on the worker. A directory
// in which others make files stays until the end of the run.
func TestMadeTravels(t *testing.T) {
	v := newPair(t, Files{Return: named("out/log-")})
	tasks, trips := [2]*task.Task{}, [2]*Trip{}
	for i, name := range []string{"a", "b"} {
		m := &task.Making{Targets: []task.Target{{Path: "out/" + name, Temp: true}, {Path: "own/" + name}}, Temp: ".crew-0000000" + name + "."}
		tasks[i] = &task.Task{ID: uint64(i), Records: [][]string{{name}}, Makes: m}
		trips[i] = &Trip{User: "ada", Makes: m.Files(true), Temp: m.Temp, Cleanup: true}
		var err error
		_, trips[i].Return, err = v.c.Send(tasks[i])
		require.NoError(t, err)
		require.NoError(t, v.p.Fetch(t.Context(), "RUN", trips[i]))
	}
	require.NoError(t, os.MkdirAll(v.at("own"), 0o777))
	for _, name := range []string{"out/.crew-0000000a.a", "out/log-a", "own/a"} {
		crewtest.WriteFile(t, v.at(name), name, 0o750)
	}
	back, err := v.p.Collect(trips[0], true)
	require.NoError(t, err)
	require.Len(t, back, 3)
	v.p.Release(trips[0])
	left, err := os.ReadDir(v.at("out"))
	require.NoError(t, err, "another task makes files there")
	require.Empty(t, left)
	require.NoDirExists(t, v.at("own"))

	require.NoError(t, os.Mkdir("out", 0o777))
	facts := &task.Facts{Host: "web1", Outcome: task.OK}
	require.NoError(t, v.c.FetchMade(t.Context(), "web1", tasks[0], facts, back))
	require.Equal(t, "out/.crew-0000000a.a", read(t, "out/.crew-0000000a.a"))
	require.Equal(t, "own/a", read(t, "own/a"))
	require.NoFileExists(t, "out/a")
	v.drop(back)
	require.NoError(t, os.Remove("out/.crew-0000000a.a"))
	require.ErrorIs(t, v.c.FetchMade(t.Context(), "web1", tasks[0], facts, back), ErrNone)

	back, err = v.p.Collect(trips[1], false)
	require.NoError(t, err)
	require.Empty(t, back, "its attempt has failed")
	v.p.Release(trips[1])
	v.p.CleanUp("RUN")
	require.NoDirExists(t, v.there)
}

// A blob can be pulled from any offset on, until its owner drops it.
func TestBlobs(t *testing.T) {
	t.Parallel()
	both := newBlobs(t)
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	b := both[1].Add(spool.Text(text), int64(len(text)))
	var got bytes.Buffer
	require.NoError(t, both[0].Pull(t.Context(), "web1", b, 16, &got))
	require.True(t, bytes.Equal(text[16:], got.Bytes()))

	elsewhere, none := b, b
	elsewhere.Place, none.Name = b.Place+".>", "NONE"
	require.ErrorIs(t, both[0].Pull(t.Context(), "web1", elsewhere, 0, &got), ErrNone)
	require.ErrorIs(t, both[0].Pull(t.Context(), "web1", none, 0, &got), ErrNone)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, both[0].Pull(ctx, "web1", b, 0, writes(func([]byte) { cancel() })), context.Canceled)
	require.ErrorIs(t, both[0].Pull(t.Context(), "web1", b, 0, writes(func([]byte) { both[1].Drop(b) })), ErrNone)
}

// writes makes a function an io.Writer.
type writes func([]byte)

func (w writes) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
