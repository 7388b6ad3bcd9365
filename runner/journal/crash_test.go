package journal

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

const (
	holdDir  = "CREW_TEST_HOLD_DIR"  // this process opens that and waits
	crashDir = "CREW_TEST_CRASH_DIR" // this process is the one to be killed, and writes there
	queueDir = "CREW_TEST_QUEUE_DIR" // the same with a queue
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	syscall.Umask(0o022) // the directories must be nobody else's to write
	if dir := os.Getenv(holdDir); dir != "" {
		j, err := Open(configured(dir))
		if err != nil {
			fmt.Println(err)
		}
		ballast := make([]byte, 64<<20) // which takes the kernel a while to clear away
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
		fmt.Println("open")
		time.Sleep(time.Hour)
		j.Close()
	}
	if dir := os.Getenv(crashDir); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(queueDir); dir != "" {
		if err := queueVictim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

const crashTasks = 400

// victim resumes its run, and each time begins with a compaction, as its slack
// is negative. What is durable it says on its stdout.
func victim(dir string) error {
	cfg := configured(dir)
	cfg.Slack = -1 << 40
	cfg.Notice = func(text string) { fmt.Fprintln(os.Stderr, text) }
	j, err := Open(cfg)
	if err != nil {
		return err
	}
	src, commit, show := j.Source(numbered()), j.Commit(), j.Shown(&shower{})
	for {
		tk, err := src.Next(nil)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if tk.Done != nil {
			continue
		}
		r := ends(ok).attempt(j, tk, 1, true)
		batch := []task.Event{{Kind: task.Finished, ID: tk.ID, Task: tk, Attempt: 1, Result: r}, {Kind: task.Released, ID: tk.ID, Last: tk.ID}}
		if err := commit.Consume(batch); err != nil {
			return err
		}
		fmt.Println(tk.ID)
		if err := show.Consume(batch); err != nil {
			return err
		}
	}
}

func numbered() *list {
	l := &list{}
	for i := range crashTasks {
		l.commands = append(l.commands, "x "+strconv.Itoa(i+1))
	}
	return l
}

// A process that is killed at any moment, in a compaction, too, loses nothing
// of what it had said was durable, and does none of it twice.
func TestKilledInCompaction(t *testing.T) {
	t.Parallel()
	kills := 15
	if n, err := strconv.Atoi(os.Getenv("CREW_SOAK")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	said := map[string]bool{}
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var complaint strings.Builder
		cmd.Stderr = &complaint
		require.NoError(t, cmd.Start())
		kill := time.AfterFunc(time.Duration(rand.IntN(40))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for in := bufio.NewScanner(out); in.Scan(); {
			require.False(t, said[in.Text()], "task %s ran again", in.Text())
			said[in.Text()] = true
		}
		_ = cmd.Wait()
		kill.Stop()
		require.Empty(t, complaint.String())

		s, err := Summarize(dir)
		if os.IsNotExist(err) {
			require.Empty(t, said)
			continue
		}
		require.NoError(t, err)
		require.Zero(t, s.Damage)
		require.GreaterOrEqual(t, s.Total.Tasks, len(said))
	}
	_, ran := run(t, configured(dir), ok, numbered().commands...)
	require.LessOrEqual(t, len(ran), crashTasks-len(said))
	shown, ran := run(t, func() Config { c := configured(dir); c.Past.Replay = true; return c }(), ok, numbered().commands...)
	require.Empty(t, ran)
	var want strings.Builder
	for i := range crashTasks {
		fmt.Fprintln(&want, i+1)
	}
	require.Equal(t, want.String(), shown)
}

// queueVictim goes on with a queue, which is compacted all the time, until it is
// killed. What is durable it says on its stdout.
func queueVictim(dir string) error {
	cfg := queued(dir)
	cfg.Slack, cfg.Queue.Keep = -1<<40, -time.Hour
	cfg.Notice = func(text string) { fmt.Fprintln(os.Stderr, text) } // no output is damaged
	j, err := Open(cfg)
	if err != nil {
		return err
	}
	ready := make(chan *task.Task, 100)
	failed := make(chan error)
	for t, err := range j.Queue() {
		if err != nil {
			return err
		}
		if t.Done == nil {
			ready <- t
		}
	}
	var last atomic.Uint64
	last.Store(j.Last())
	for range 3 {
		go func() {
			for {
				for len(ready) > cap(ready)/2 {
					runtime.Gosched()
				}
				t := &task.Task{ID: last.Add(1), Argv: []string{"x"}, Bare: true, Env: []string{"A=1"}}
				if err := j.Accept([]*task.Task{t}); err != nil {
					failed <- err
				}
				fmt.Println("accepted", t.ID)
				ready <- t
			}
		}()
	}
	commit, show := j.Commit(), j.Shown(&shower{})
	go func() {
		for t := range ready {
			fmt.Println("runs", t.ID)
			r := ends(func(task.Attempt) *task.Result { return &task.Result{Outcome: task.OK, Stdout: text("out")} }).attempt(j, t, 1, true)
			batch := []task.Event{{Kind: task.Finished, ID: t.ID, Task: t, Attempt: 1, Result: r}, {Kind: task.Released, ID: t.ID, Last: t.ID}}
			if err := commit.Consume(batch); err != nil {
				failed <- err
			}
			fmt.Println("ended", t.ID)
			if err := show.Consume(batch); err != nil {
				failed <- err
			}
		}
	}()
	return <-failed
}

// A queue that is killed at any moment keeps every task that it has accepted, runs
// none again that it knew the end of, and gives no number twice.
func TestKilledQueue(t *testing.T) {
	t.Parallel()
	kills := 15
	if n, err := strconv.Atoi(os.Getenv("CREW_SOAK")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	accepted, began, ended := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), queueDir+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var complaint strings.Builder
		cmd.Stderr = &complaint
		require.NoError(t, cmd.Start())
		kill := time.AfterFunc(time.Duration(20+rand.IntN(60))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for in := bufio.NewScanner(out); in.Scan(); {
			var what string
			var id uint64
			_, err := fmt.Sscan(in.Text(), &what, &id)
			require.NoError(t, err)
			switch what {
			case "accepted":
				require.False(t, accepted[id], "number %d was given twice", id)
				accepted[id] = true
			case "runs":
				require.False(t, ended[id], "task %d ran again", id)
				began[id] = true
			case "ended":
				ended[id] = true
			}
		}
		_ = cmd.Wait()
		kill.Stop()
		require.Empty(t, complaint.String())
	}
	got := reopened(t, queued(dir))
	for id := range accepted {
		waits := got[id] != nil && got[id].Done == nil
		require.False(t, ended[id] && waits, "task %d would run again", id)
		require.True(t, began[id] || waits, "task %d is lost", id)
		require.True(t, !waits || len(got[id].Env) == 1)
	}
	t.Log(len(accepted), "accepted,", len(ended), "ended")
}
