package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeats(t *testing.T) {
	t.Parallel()
	var dismissed []int
	s := Seats{Window: 1, most: 2, Dismiss: func(n int) <-chan struct{} { dismissed = append(dismissed, n); return nil }}
	one, two, other := Holder{"a", 1, 1}, Holder{"a", 1, 2}, Holder{"b", 1, 1}
	take := func(h Holder, own bool) *Seat { return s.Take(t.Context(), h, own) }
	use := func(h Holder, own bool) int {
		c := take(h, own)
		s.Leave(c, h)
		return c.Number
	}
	require.Equal(t, 1, use(one, false))
	require.Equal(t, 2, use(two, false), "a process of its own while there is room")
	require.Equal(t, 1, use(one, false), "what the slot has had")
	require.Equal(t, 2, use(two, false))
	require.Empty(t, dismissed)
	require.Equal(t, 1, use(other, false), "the one that was not used for longest")
	require.Equal(t, []int{1}, dismissed)
	require.Equal(t, 2, use(one, true), "of the own command")
	require.Equal(t, []int{1, 2}, dismissed)
	require.Equal(t, 1, use(two, true))
	require.Equal(t, 2, use(other, true))
	require.Equal(t, []int{1, 2, 1}, dismissed, "the process of the own command serves all runs")

	busy, more := take(other, true), take(one, false)
	s.Resize(3)
	third := take(two, false)
	require.Equal(t, []int{2, 1, 3}, []int{busy.Number, more.Number, third.Number})
	dismissed = nil
	s.End(func(c *Seat) bool { return c.Run == "a" })
	require.Empty(t, dismissed, "they are busy")
	s.Leave(more, one)
	s.Leave(third, two)
	require.Equal(t, []int{1, 3}, dismissed)
	s.Resize(1)
	s.Leave(busy, other)
	require.Equal(t, []int{1, 3, 2}, dismissed)
	s.end(func(*Seat) bool { return true })
	require.Equal(t, []int{1, 3, 2}, dismissed, "there is none left")
}

// TestSeatsWithWindow has seats that take two records at once, or one other task.
func TestSeatsWithWindow(t *testing.T) {
	t.Parallel()
	s := Seats{Window: 2, most: 1, Dismiss: func(int) <-chan struct{} { return nil }}
	one, other, plain := Holder{"a", 1, 1}, Holder{"b", 1, 1}, Holder{}
	begin := func(h Holder) *claim {
		c := &claim{h, false, make(chan *Seat, 1)}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = append(s.waiting, c)
		s.give()
		return c
	}
	first, second, third := begin(one), begin(one), begin(one)
	waits, last, task := begin(other), begin(one), begin(plain)
	require.Same(t, <-first.given, <-second.given)
	require.Empty(t, third.given, "the window is full")
	it := s.list[0]
	s.Leave(it, one)
	require.Same(t, it, <-third.given)
	s.Leave(it, one)
	require.Empty(t, last.given, "another one has waited for longer")
	s.Leave(it, one)
	require.Equal(t, other.Run, (<-waits.given).Run)
	require.Empty(t, last.given)
	s.Leave(it, other)
	require.Same(t, it, <-last.given)
	s.Leave(it, one)
	require.Same(t, it, <-task.given)
	next := begin(one)
	require.Empty(t, next.given, "a task takes all of it")
	s.Leave(it, plain)
	require.Same(t, it, <-next.given)

	gone, end := context.WithCancel(t.Context())
	end()
	require.Nil(t, s.Take(gone, other, false))
	require.Empty(t, s.waiting)
}
