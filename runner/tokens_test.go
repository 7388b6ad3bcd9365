package runner

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// basket is Tokens with others beside the run, who take and bring tokens with change.
type basket struct {
	own bool

	mu     sync.Mutex
	there  int // tokens that nobody holds
	held   int // by the run
	all    int // if own
	asked  bool
	asks   int
	answer func(got bool, err error)
}

func (b *basket) Own() bool                      { return b.own }
func (b *basket) Watch(answer func(bool, error)) { b.answer = answer }
func (b *basket) Ask()                           { b.do(func() { b.asked = true; b.asks++ }) }
func (b *basket) Return(n int)                   { b.do(func() { b.held -= n; b.there += n }) }
func (b *basket) Create(n int)                   { b.do(func() { b.held += n; b.all += n }) }
func (b *basket) Destroy(n int)                  { b.do(func() { b.held -= n; b.all -= n }) }
func (b *basket) Recount()                       { b.do(func() { b.there = b.all - b.held }) }
func (b *basket) change(n int)                   { b.do(func() { b.there += n }) }
func (b *basket) count() (there, held int) {
	b.do(func() { there, held = b.there, b.held })
	return there, held
}
func (b *basket) do(f func())               { b.mu.Lock(); defer b.mu.Unlock(); f(); b.give() }
func (b *basket) reply(got bool, err error) { b.asked = false; go b.answer(got, err) }
func (b *basket) fail(err error)            { b.do(func() { b.reply(false, err) }) }
func (b *basket) Withdraw()                 { b.do(func() { b.refuse() }) }

func (b *basket) give() {
	if b.held < 0 || b.there < 0 {
		panic("returned what it had not")
	}
	if b.asked && b.there > 0 {
		b.there--
		b.held++
		b.reply(true, nil)
	}
}

func (b *basket) refuse() {
	if b.asked {
		b.reply(false, nil)
	}
}

func TestATokenForEachAttemptButOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, exec, sink := &basket{there: 3}, &fake{}, &seen{}
		cfg := config(8)
		cfg.Pool.Tokens = b
		begin := time.Now()
		_, err := run(cfg, &tasks{n: 20}, exec, []Sink{sink}, nil)
		require.NoError(t, err)
		require.Equal(t, 4, exec.most)
		require.Equal(t, 5*time.Second, time.Since(begin))
		synctest.Wait()
		there, held := b.count()
		require.Equal(t, []int{3, 0}, []int{there, held})
		require.Equal(t, 20, sink.count(task.OK))
	})
}

func TestTheSizeOfThePoolIsTheMostTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, exec := &basket{there: 7}, &fake{}
		cfg := config(3)
		cfg.Pool.Tokens = b
		go func() { _, _ = run(cfg, &tasks{n: 9}, exec, []Sink{&seen{}}, nil) }()
		time.Sleep(time.Second / 2)
		there, held := b.count()
		require.Equal(t, []int{5, 2}, []int{there, held})
		b.do(func() { require.Equal(t, 2, b.asks, "none is asked for without a use") })
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 3, exec.most)
	})
}

// Whoever shares the tokens takes some away, and brings them back.
func TestTokensComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, exec := &basket{}, &fake{}
		cfg := config(4)
		cfg.Pool.Tokens = b
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = run(cfg, &tasks{n: 10}, exec, []Sink{&seen{}}, nil)
		}()
		time.Sleep(2500 * time.Millisecond)
		require.Len(t, exec.begun(), 3)
		b.change(1)
		synctest.Wait()
		require.Len(t, exec.begun(), 4)
		<-over
		synctest.Wait()
		there, held := b.count()
		require.Equal(t, []int{1, 0}, []int{there, held})
		b.do(func() { require.False(t, b.asked) })
	})
}

// A run that starts nothing for a while keeps no tokens.
func TestTokensAreNotKeptIdle(t *testing.T) {
	for name, idle := range map[string]func(*Config, *tasks){
		"between starts": func(cfg *Config, _ *tasks) { cfg.Pool.Delay = 10 * time.Second },
		"input":          func(_ *Config, src *tasks) { src.pause = 10 * time.Second },
	} {
		synctest.Test(t, func(t *testing.T) {
			b, src, cfg := &basket{there: 3}, &tasks{n: 5}, config(4)
			idle(&cfg, src)
			cfg.Pool.Tokens = b
			go func() { _, _ = run(cfg, src, &fake{}, []Sink{&seen{}}, nil) }()
			for range 8 {
				time.Sleep(5 * time.Second)
				synctest.Wait()
				there, held := b.count()
				require.Equal(t, []int{3, 0}, []int{there, held}, name)
			}
			time.Sleep(time.Hour)
		})
	}
}

func TestADrainReturnsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, inbox := &basket{there: 3}, make(chan task.Command)
		exec := &fake{do: func(a task.Attempt) (time.Duration, task.Outcome) {
			return time.Duration(a.Task.ID) * time.Second, task.OK
		}}
		cfg := config(4)
		cfg.Pool.Tokens = b
		go func() { _, _ = run(cfg, &tasks{n: 50}, exec, []Sink{&seen{}}, inbox) }()
		time.Sleep(500 * time.Millisecond)
		inbox <- task.Command{Op: task.Drain}
		for want := range 4 {
			synctest.Wait()
			there, _ := b.count()
			require.Equal(t, want, there)
			time.Sleep(time.Second)
		}
	})
}

// The run's own tokens are as many as its slots.
func TestOwnTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, exec, inbox := &basket{own: true}, &fake{}, make(chan task.Command)
		cfg := config(3)
		cfg.Pool.Tokens = b
		total := func() int { synctest.Wait(); there, held := b.count(); return there + held }
		go func() { _, _ = run(cfg, &tasks{n: 60}, exec, []Sink{&seen{}}, inbox) }()
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, 3, total())
		require.Len(t, exec.begun(), 6)
		inbox <- task.Command{Op: task.Resize, N: 5}
		require.Equal(t, 5, total())
		require.Len(t, exec.begun(), 8)
		inbox <- task.Command{Op: task.Resize, N: 2}
		require.Equal(t, 5, total(), "those in use are destroyed later")
		time.Sleep(time.Second)
		require.Equal(t, 2, total())
		time.Sleep(time.Minute)
		synctest.Wait()
		there, held := b.count()
		require.Equal(t, []int{2, 0}, []int{there, held})
	})
}

// What others hold when the pool shrinks is destroyed when they bring it back.
func TestOwnTokensShrinkLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, inbox := &basket{own: true}, make(chan task.Command)
		exec := &fake{do: func(task.Attempt) (time.Duration, task.Outcome) { return time.Minute, task.OK }}
		cfg := config(4)
		cfg.Pool.Tokens = b
		go func() { _, _ = run(cfg, &tasks{n: 1}, exec, []Sink{&seen{}}, inbox) }()
		synctest.Wait()
		b.change(-3)
		inbox <- task.Command{Op: task.Resize, N: 1}
		time.Sleep(5 * time.Second)
		for range 3 {
			b.change(1)
			synctest.Wait()
		}
		there, held := b.count()
		require.Equal(t, []int{0, 1}, []int{there, held})
		time.Sleep(time.Hour)
	})
}

// Tokens that were lost with a task are replaced once no task runs.
func TestOwnTokensThatAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, exec := &basket{own: true}, &fake{}
		exec.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 2 {
				return 3 * time.Second, task.Signal
			}
			return time.Second, task.OK
		}
		cfg := config(3)
		cfg.Pool.Tokens = b
		hold := make(chan struct{})
		src := &tasks{n: 3, wait: hold}
		r, err := New(cfg, src, exec, nil, []Sink{&seen{}})
		require.NoError(t, err)
		go r.Wait()
		time.Sleep(2 * time.Second)
		b.change(-2) // a make of task 2 takes them, and is killed
		time.Sleep(2 * time.Second)
		there, held := b.count()
		require.Equal(t, []int{3, 0}, []int{there, held})
		close(hold)
		time.Sleep(time.Minute)
	})
}

// When no more tokens come, the run goes on with those that it holds.
func TestNoMoreTokens(t *testing.T) {
	for _, c := range []struct {
		own   bool
		there int
		most  int
	}{{false, 0, 1}, {false, 3, 4}, {true, 0, 4}} {
		synctest.Test(t, func(t *testing.T) {
			b, exec, sink := &basket{own: c.own, there: c.there}, &fake{}, &seen{}
			cfg := config(4)
			cfg.Pool.Tokens = b
			go func() { time.Sleep(500 * time.Millisecond); b.fail(errors.New("gone")) }()
			begin := time.Now()
			_, err := run(cfg, &tasks{n: 20}, exec, []Sink{sink}, nil)
			require.NoError(t, err)
			require.Equal(t, 20, sink.count(task.OK))
			require.Equal(t, c.most, exec.most)
			require.Equal(t, time.Duration(20/c.most)*time.Second, time.Since(begin))
			require.Contains(t, sink.kinds, task.Notice)
		})
	}
}

func TestARunSaysThatItWaitsForTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Pool.Tokens = &basket{}
		exec := &fake{do: func(task.Attempt) (time.Duration, task.Outcome) { return time.Minute, task.OK }}
		r, err := New(cfg, &tasks{n: 2}, exec, nil, []Sink{&seen{}})
		require.NoError(t, err)
		go r.Wait()
		time.Sleep(10 * time.Second)
		b := look(t, r).Blocking
		require.Equal(t, task.ByTokens, b.By)
		require.Equal(t, []task.Blocking{*b}, look(t, r).Waiting)
		require.Equal(t, b, ask(t, r, task.Command{Op: task.Explain, IDs: []uint64{2}}).Wheres[0].Blocking)
		require.Equal(t, "1 task waits for a token of the jobserver", b.Text(time.Now()))
		time.Sleep(time.Hour)
	})
}

// A slot that holds several attempts is one process, and so one of the run's own tokens.
func TestAnOwnTokenForEachSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, inbox := &basket{own: true}, make(chan task.Command)
		cfg := config(4)
		cfg.Pool.Window, cfg.Pool.Tokens = 8, b
		r, err := New(cfg, &tasks{n: 16}, newLanes(never), nil, []Sink{&seen{}})
		require.NoError(t, err)
		go r.Wait()
		go func() { r.Do(<-inbox) }()
		time.Sleep(time.Second)
		synctest.Wait()
		there, held := b.count()
		require.Equal(t, []int{2, 2}, []int{there, held})
		inbox <- task.Command{Op: task.Stop}
		time.Sleep(time.Minute)
	})
}

// Of slots that hold several attempts, each takes one token while it holds any.
func TestATokenForEachSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, exec, inbox := &basket{there: 1}, newLanes(never), make(chan task.Command)
		cfg := config(4)
		cfg.Pool.Window, cfg.Pool.Tokens = 8, b
		r, err := New(cfg, &tasks{n: 64}, exec, nil, []Sink{&seen{}})
		require.NoError(t, err)
		go r.Wait()
		go func() { r.Do(<-inbox) }()
		time.Sleep(time.Second)
		synctest.Wait()
		slots := map[int]int{}
		for _, run := range look(t, r).Running {
			slots[run.Slot]++
		}
		require.Equal(t, map[int]int{1: 8, 2: 8}, slots)
		inbox <- task.Command{Op: task.Stop}
		time.Sleep(time.Minute)
		there, held := b.count()
		require.Equal(t, []int{1, 0}, []int{there, held})
	})
}
