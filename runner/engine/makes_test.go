package engine

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
	"crew/runner/travel"
	"crew/runner/wiring"
)

// crewAt starts crew in a directory, with another PATH unless that is "".
func crewAt(t *testing.T, dir, path string, args ...string) *crewtest.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--protocol", strconv.Itoa(wiring.EngineProtocol)}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR="+crewtest.ShortDir(t))
	if path != "" {
		cmd.Env = append(cmd.Env, "PATH="+path)
	}
	return crewtest.New(t, cmd).Start()
}

// filesIn returns the files below a directory with their content.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files[strings.TrimPrefix(path, dir+"/")] = read(t, path)
		}
		return err
	}))
	return files
}

// count returns how many files below a directory have names that end in one of ends, or did a
// moment ago.
func count(dir string, ends ...string) (n int) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(path, end) }) {
			n++
		}
		return nil
	})
	return n
}

// inputsIn makes the files a, b and c in a new directory, whose content is their names.
func inputsIn(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o666))
	}
	return dir
}

// Workers in other directories make files: what has succeeded is here, and nothing is left there.
func TestMakesElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   map[string]string // made here
		says   string
	}{
		{"whole", []string{"--cleanup", "--makes", "out/{}.up", "[ {} != b ] || { echo half > {out}; exit 1; }; tr a-z A-Z < {} > {out}"}, 123,
			map[string]string{"out/a.up": "A\n", "out/c.up": "C\n"}, "exit 1 after"},
		{"missing", []string{"--cleanup", "--makes", "{}.up", "true {out}"}, 123, nil, "made no output after .*: a.up was not made"},
		{"directory", []string{"--cleanup", "--makes", "{}.up", "mkdir {out}; echo x > {out}/x"}, 123, nil, "return a.up: it is not a regular file"},
		{"outside", []string{"--cleanup", "--makes", "../{}.up", "echo x > {out}"}, 123, nil, `make a file: "../a.up" is no file below the working directory`},
		{"own name", []string{"--cleanup", "--makes", "{}.up", "echo x > {}.up; [ {} != b ]"}, 123,
			map[string]string{"a.up": "x\n", "c.up": "x\n"}, "exit 1 after"},
		{"two of two", []string{"--cleanup", "-n2", "--makes", "{}.up", "--makes", "./d/./{}.2", "for f in {out} {out2}; do echo ${f##*.crew-????????.} > $f; done"}, 0,
			map[string]string{"a.up": "a.up\n", "b.up": "b.up\n", "c.up": "c.up\n", "d/a.2": "a.2\n", "d/b.2": "b.2\n", "d/c.2": "c.2\n"}, ""},
		{"stdout", []string{"--cleanup", "--stdout-to", "out/{}", "[ {} = c ] || cat {}; [ {} != b ]"}, 123,
			map[string]string{"out/a": "a\n", "out/c": ""}, "exit 1 after"},
		{"lines", []string{"--cleanup", "--output", "line", "--stdout-to", "{}.up", "cat {}; echo said >&2"}, 0,
			map[string]string{"a.up": "a\n", "b.up": "b\n", "c.up": "c\n"}, "said"},
		{"long", []string{"--cleanup", "--stdout-to", "{}.up", "head -c 3000000 /dev/zero | tr '\\0' {}"}, 0, map[string]string{
			"a.up": strings.Repeat("a", 3000000), "b.up": strings.Repeat("b", 3000000), "c.up": strings.Repeat("c", 3000000)}, ""},
		{"worker", []string{"--cleanup", "--makes", "d/{}.up", "--worker-protocol", "json", "--worker",
			`while read -r x; do f=${x#*\"out\":\"}; f=${f%%\"*}; echo "$x" | sed 's/.*args":..\(.\).*/\1/' > $f; n=${x#*id\":}; echo "{\"id\":${n%%,*},\"exit\":0}"; done`}, 0,
			map[string]string{"d/a.up": "a\n", "d/b.up": "b\n", "d/c.up": "c\n"}, ""},
		{"timeout", []string{"--cleanup", "--timeout", "100ms", "--makes", "{}.up", "echo x > {out}; sleep 1000"}, 123, nil, "timed out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := inputsIn(t), filepath.Join(t.TempDir(), "w "+c.name)
			p := crewAt(t, here, "", slices.Concat([]string{"-S", "2/:", "--transfer", "--workdir", there}, c.args, []string{":::", "a", "b", "c"})...)
			p.Exits(c.status)
			require.Empty(t, p.Stdout())
			require.Regexp(t, c.says, p.Stderr())
			want := map[string]string{"a": "a\n", "b": "b\n", "c": "c\n"}
			for name, text := range c.want {
				want[filepath.Clean(name)] = text
			}
			require.Equal(t, want, filesIn(t, here))
			require.Zero(t, count(there, ".up", ".2", ".own", "/a", "/b", "/c"), "nothing is left there")
			if c.status == 0 {
				p = crewAt(t, here, "", slices.Concat([]string{"-S", "2/:", "--transfer", "--workdir", there}, c.args, []string{":::", "a", "b", "c"})...)
				p.Exits(0)
				require.Empty(t, p.Stderr(), "all is up to date, so no host is needed")
			}
		})
	}
}

// TestMakesHere has the worker be in crew's own directory, where the temporary file of both is
// the same one, and a target with an absolute path.
func TestMakesHere(t *testing.T) {
	t.Parallel()
	here, other := inputsIn(t), t.TempDir()
	p := crewAt(t, here, "", "-S", "4/:", "-q", "--makes", "out/{}.up", "--makes", other+"/new/{}",
		"echo {} | tee {out} > {out2}; [ {} != b ]", ":::", "a", "b", "c")
	p.Exits(123)
	require.Equal(t, map[string]string{"a": "a\n", "b": "b\n", "c": "c\n", "out/a.up": "a\n", "out/c.up": "c\n"}, filesIn(t, here))
	require.Equal(t, map[string]string{"new/a": "a\n", "new/c": "c\n"}, filesIn(t, other))
	p = crewAt(t, here, "", "-S", "4/:", "--cleanup", "--makes", "{}.own", "echo {} > {}.own", ":::", "a", "b")
	p.Exits(0)
	require.Empty(t, p.Stderr())
	require.Equal(t, "b\n", filesIn(t, here)["b.own"])
}

// TestMakesKilled kills crew while its files come back, and at times its worker. Each target is
// whole or absent all the time. The run that is not killed makes what is missing.
func TestMakesKilled(t *testing.T) {
	crewtest.Soak(t)
	url := startHub(t)
	file, key := keyFile(t)
	there, big := t.TempDir(), strings.Repeat("0123456789abcdef", 1<<15)
	worker := func() *crewtest.Process {
		return crewAt(t, there, "", "worker", "--engine", url, "-j3", "--worker-ttl", "6s", "--allow-commands", "--trust", key.Line())
	}
	w := worker()
	for _, state := range []bool{false, true} {
		for range crewtest.Rounds(0) / 4 {
			here := t.TempDir()
			args := []string{"--engine", url, "--sign", file}
			if state {
				args = append(args, "--state", "state")
			}
			args = append(args, "--makes", "out/{}.big", "--stdout-to", "{}.out",
				`i=0; while [ $i -lt 32768 ]; do printf 0123456789abcdef; i=$((i+1)); done | tee {out}`, ":::", "a", "b", "c", "d", "e", "f")
			check := func(all bool) {
				for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
					for _, name := range []string{"out/" + n + ".big", n + ".out"} {
						text, err := os.ReadFile(filepath.Join(here, name))
						if all || !os.IsNotExist(err) {
							require.NoError(t, err)
							require.True(t, string(text) == big, "%s is whole, not %d bytes", name, len(text))
						}
					}
				}
			}
			for range 2 {
				p := crewAt(t, here, "", args...)
				crewtest.Until(t, func() bool { return p.Ended() || count(here, ".big", ".out") > rand.IntN(20) }, "something to come back")
				p.Kill()
				check(false)
			}
			crewtest.Until(t, func() bool { return count(there, ".big") == 0 }, "the worker to remove what nobody wants")
			if rand.IntN(2) == 0 {
				p := crewAt(t, here, "", args...)
				crewtest.Until(t, func() bool { return p.Ended() || count(there, ".big") > 0 }, "a task to begin")
				w.Kill()
				w.Gone() // its tasks still make files until its guardian has killed them
				require.NoError(t, os.RemoveAll(filepath.Join(there, "out")))
				w = worker()
				p.Exits(0)
			}
			p := crewAt(t, here, "", args...)
			p.Exits(0)
			check(true)
			for name := range filesIn(t, here) {
				require.NotContains(t, name, ".crew", "nothing is left under temporary names")
			}
		}
	}
	w.Send(syscall.SIGTERM)
	w.Dies(syscall.SIGTERM)
}

// naming is a runner.Maker that gives temporary names and nothing else.
type naming struct{}

func (naming) Check(*task.Task) *task.Result { return nil }
func (naming) End(*task.Result)              {}
func (naming) Begin(a task.Attempt) *task.Result {
	a.Task.Makes.Temp = fmt.Sprintf(".crew-%08d.", a.Number)
	return nil
}

// TestMadeIsGone has the result of an attempt come without the file that it says was made, as one
// has of which a submitter that was killed has fetched that. The task runs again.
func TestMadeIsGone(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		path, tries := filepath.Join(t.TempDir(), "out"), 0
		b.worker("a", 1, func(f *fake, a *Attempt, m jetstream.Msg) {
			file := travel.File{Path: path, Object: a.name() + ".0", Mode: 0o640, Made: true}
			if tries++; tries > 1 {
				content := strings.NewReader("made")
				file.Seal, _ = travel.NewSeal(content)
				require.NoError(t, f.s.objects.Put(t.Context(), file.Object, file.Seal.Closed(content)))
			}
			f.end(a, func(fin *Final) { fin.Returned = []travel.File{file} })
			_ = m.Ack()
		})
		r, err := b.tryRun(&records{n: 1, change: func(t *task.Task) {
			t.Makes = &task.Making{Targets: []task.Target{{Path: path, Temp: true}}}
		}}, func(s *wiring.Submission) { s.Files.Makes = true })
		require.NoError(t, err)
		r.wait()
		require.Equal(t, task.OK, r.results[1].Outcome)
		require.Equal(t, 1, r.lost)
		require.Equal(t, map[string]string{".crew-00000002.out": "made"}, filesIn(t, filepath.Dir(path)))
	})
}

// TestMadeOfOtherInputs has a submitter die before the results come. The next one takes that of a
// task which would be run in the same way; the other, whose inputs have changed, runs again.
func TestMadeOfOtherInputs(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		dir, died, held := t.TempDir(), make(chan struct{}), make(chan struct{})
		given := make(chan uint64, 10)
		b.worker("a", 2, func(f *fake, a *Attempt, m jetstream.Msg) {
			given <- a.Task
			if a.Epoch > 1 {
				f.end(a, shows("again\n"))
				_ = m.Ack()
				return
			}
			go func() {
				<-died
				f.end(a, shows("first\n"))
				_ = m.Ack()
				_, err := f.s.js.Publish(context.Background(), resultSubject("q", f.presence.ID, "other"), nil) // what is before it is stored, too
				require.NoError(t, err)
				held <- struct{}{}
			}()
		})
		run := func(inputs uint64) *testRun {
			r, err := b.tryRun(&records{n: 2, change: func(tk *task.Task) {
				tk.Makes = &task.Making{Targets: []task.Target{{Path: fmt.Sprint("made", tk.ID)}}, Stamp: task.Stamp{Command: 1, Inputs: 1 + inputs*(tk.ID-1)}}
			}}, func(s *wiring.Submission) { s.Dir, s.Files.Makes = dir, true })
			require.NoError(t, err)
			return r
		}
		r := run(1)
		for range 2 {
			crewtest.Receive(t, given, "an attempt")
		}
		r.die()
		close(died)
		for range 2 {
			crewtest.Receive(t, held, "a result")
		}
		r = run(2)
		r.wait()
		require.Equal(t, map[uint64]string{1: "first\n", 2: "again\n"}, r.outputs)
		require.Equal(t, uint64(2), crewtest.Receive(t, given, "the attempt that runs again"))
		require.Empty(t, given)
	})
}
