package core

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// basket is Tokens with others beside the run, who take and bring tokens.
type basket struct {
	own     bool
	there   int // tokens that nobody holds
	held    int // by the run
	all     int // if own
	asked   bool
	asks    int
	answers []func(*Core) // to Ask
}

func (b *basket) Own() bool               { return b.own }
func (b *basket) Watch(func(bool, error)) {}
func (b *basket) Ask()                    { b.asked = true; b.asks++ }
func (b *basket) Withdraw()               { b.answer(false, nil) }
func (b *basket) Return(n int)            { b.held -= n; b.there += n }
func (b *basket) Create(n int)            { b.held += n; b.all += n }
func (b *basket) Destroy(n int)           { b.held -= n; b.all -= n }
func (b *basket) Recount()                { b.there = b.all - b.held }
func (b *basket) sum() []int              { return []int{b.there, b.held} }

func (b *basket) answer(got bool, err error) {
	if b.asked {
		b.asked = false
		b.answers = append(b.answers, func(c *Core) { c.Answered(got, err) })
	}
}

// give gives a token that is asked for, and returns what to tell the core.
func (b *basket) give() (answers []func(*Core)) {
	if b.held < 0 || b.there < 0 {
		panic("returned what it had not")
	}
	if b.asked && b.there > 0 {
		b.there, b.held = b.there-1, b.held+1
		b.answer(true, nil)
	}
	answers, b.answers = b.answers, nil
	return answers
}

// share has others bring n tokens to the basket, or take them.
func (s *sim) share(n int) {
	s.tokens.there += n
	s.step(func(*Core) {})
}

// sharing is a configuration of so many slots that shares tokens.
func sharing(slots int, b *basket) Config {
	cfg := config(slots)
	cfg.Pool.Tokens = b
	return cfg
}

func TestATokenForEachAttemptButOne(t *testing.T) {
	b := &basket{there: 3}
	s := simulate(t, sharing(8, b), 20)
	s.wait()
	require.Equal(t, 4, s.most)
	require.Equal(t, 5*time.Second, s.took())
	require.Equal(t, []int{3, 0}, b.sum())
	require.Equal(t, 20, s.count(task.OK))
}

func TestTheSizeOfThePoolIsTheMostTokens(t *testing.T) {
	b := &basket{there: 7}
	s := simulate(t, sharing(3, b), 9)
	s.sleep(time.Second / 2)
	require.Equal(t, []int{5, 2}, b.sum())
	require.Equal(t, 2, b.asks, "none is asked for without a use")
	s.wait()
	require.Equal(t, 3, s.most)
}

// Whoever shares the tokens takes some away, and brings them back.
func TestTokensComeAndGo(t *testing.T) {
	b := &basket{}
	s := simulate(t, sharing(4, b), 10)
	s.sleep(2500 * time.Millisecond)
	require.Len(t, s.begun, 3)
	s.share(1)
	require.Len(t, s.begun, 4)
	s.wait()
	require.Equal(t, []int{1, 0}, b.sum())
	require.False(t, b.asked)
}

// A run that starts nothing for a while keeps no tokens.
func TestTokensAreNotKeptIdle(t *testing.T) {
	for name, idle := range map[string]struct{ delay, pause time.Duration }{
		"between starts": {delay: 10 * time.Second},
		"input":          {pause: 10 * time.Second},
	} {
		b := &basket{there: 3}
		cfg := sharing(4, b)
		cfg.Pool.Delay = idle.delay
		s := simulate(t, cfg, 5, func(s *sim) { s.pause = idle.pause })
		for range 8 {
			s.sleep(5 * time.Second)
			require.Equal(t, []int{3, 0}, b.sum(), name)
		}
		s.wait()
	}
}

func TestADrainReturnsTokens(t *testing.T) {
	b := &basket{there: 3}
	s := simulate(t, sharing(4, b), 50, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			return time.Duration(a.Task.ID) * time.Second, task.OK
		}
	})
	s.sleep(500 * time.Millisecond)
	s.ask(task.Command{Op: task.Drain})
	for want := range 4 {
		require.Equal(t, want, b.there)
		s.sleep(time.Second)
	}
}

// The run's own tokens are as many as its slots.
func TestOwnTokens(t *testing.T) {
	b := &basket{own: true}
	s := simulate(t, sharing(3, b), 60)
	s.sleep(1500 * time.Millisecond)
	require.Equal(t, 3, b.all)
	require.Len(t, s.begun, 6)
	s.ask(task.Command{Op: task.Resize, N: 5})
	require.Equal(t, 5, b.all)
	require.Len(t, s.begun, 8)
	s.ask(task.Command{Op: task.Resize, N: 2})
	require.Equal(t, 5, b.all, "those in use are destroyed later")
	s.sleep(time.Second)
	require.Equal(t, 2, b.all)
	s.wait()
	require.Equal(t, []int{2, 0}, b.sum())
}

// What others hold when the pool shrinks is destroyed when they bring it back.
func TestOwnTokensShrinkLater(t *testing.T) {
	b := &basket{own: true}
	s := simulate(t, sharing(4, b), 1, lasting(time.Minute, 0))
	s.share(-3)
	s.ask(task.Command{Op: task.Resize, N: 1})
	s.sleep(5 * time.Second)
	for range 3 {
		s.share(1)
	}
	require.Equal(t, []int{0, 1}, b.sum())
}

// Tokens that were lost with a task are replaced once no task runs.
func TestOwnTokensThatAreLost(t *testing.T) {
	b := &basket{own: true}
	s := simulate(t, sharing(3, b), 3, endless, func(s *sim) {
		s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			if a.Task.ID == 2 {
				return 3 * time.Second, task.Signal
			}
			return time.Second, task.OK
		}
	})
	s.sleep(2 * time.Second)
	s.share(-2) // a make of task 2 takes them, and is killed
	s.sleep(2 * time.Second)
	require.Equal(t, []int{3, 0}, b.sum())
}

// When no more tokens come, the run goes on with those that it holds.
func TestNoMoreTokens(t *testing.T) {
	for _, c := range []struct {
		own   bool
		there int
		most  int
	}{{false, 0, 1}, {false, 3, 4}, {true, 0, 4}} {
		b := &basket{own: c.own, there: c.there}
		s := simulate(t, sharing(4, b), 20)
		s.sleep(500 * time.Millisecond)
		s.step(func(c *Core) { c.Answered(false, errors.New("gone")) })
		s.wait()
		require.Equal(t, 20, s.count(task.OK))
		require.Equal(t, c.most, s.most)
		require.Equal(t, time.Duration(20/c.most)*time.Second, s.took())
		require.True(t, s.told(task.Notice))
	}
}

func TestARunSaysThatItWaitsForTokens(t *testing.T) {
	s := simulate(t, sharing(2, &basket{}), 2, lasting(time.Minute, 0))
	s.sleep(10 * time.Second)
	b := s.look().Blocking
	require.Equal(t, task.ByTokens, b.By)
	require.Equal(t, []task.Blocking{*b}, s.look().Waiting)
	require.Equal(t, b, s.where(2).Blocking)
	require.Equal(t, "1 task waits for a token of the jobserver", b.Text(s.now))
}

// A slot that holds several attempts is one process, and so one of the run's own tokens.
func TestAnOwnTokenForEachSlot(t *testing.T) {
	b := &basket{own: true}
	cfg := sharing(4, b)
	cfg.Pool.Window = 8
	simulate(t, cfg, 16, lasting(time.Minute, 0))
	require.Equal(t, []int{2, 2}, b.sum())
}

// Of slots that hold several attempts, each takes one token while it holds any.
func TestATokenForEachSlot(t *testing.T) {
	b := &basket{there: 1}
	cfg := sharing(4, b)
	cfg.Pool.Window = 8
	s := simulate(t, cfg, 64, lasting(time.Minute, 0))
	slots := map[int]int{}
	for _, run := range s.look().Running {
		slots[run.Slot]++
	}
	require.Equal(t, map[int]int{1: 8, 2: 8}, slots)
	s.ask(task.Command{Op: task.Stop})
	s.wait()
	require.Equal(t, []int{1, 0}, b.sum())
}
