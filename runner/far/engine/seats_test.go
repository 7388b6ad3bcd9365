package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeats(t *testing.T) {
	t.Parallel()
	var dismissed []int
	s := Seats{Window: 1, max: 2, Dismiss: func(n int) <-chan struct{} { dismissed = append(dismissed, n); return nil }}
	one, two, other := RunSlot{"a", 1, 1}, RunSlot{"a", 1, 2}, RunSlot{"b", 1, 1}
	take := func(h RunSlot, own bool) *Seat { return s.Acquire(t.Context(), h, own) }
	use := func(h RunSlot, own bool) int {
		seat := take(h, own)
		s.Release(seat, h)
		return seat.Number
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
	s.End(func(seat *Seat) bool { return seat.Run == "a" })
	require.Empty(t, dismissed, "they are busy")
	s.Release(more, one)
	s.Release(third, two)
	require.Equal(t, []int{1, 3}, dismissed)
	s.Resize(1)
	s.Release(busy, other)
	require.Equal(t, []int{1, 3, 2}, dismissed)
	s.endWhere(func(*Seat) bool { return true })
	require.Equal(t, []int{1, 3, 2}, dismissed, "there is none left")
}

// TestSeatsWithWindow has seats that take two records at once, or one other task.
func TestSeatsWithWindow(t *testing.T) {
	t.Parallel()
	s := Seats{Window: 2, max: 1, Dismiss: func(int) <-chan struct{} { return nil }}
	one, other, plain := RunSlot{"a", 1, 1}, RunSlot{"b", 1, 1}, RunSlot{}
	begin := func(h RunSlot) *claim {
		c := &claim{h, false, make(chan *Seat, 1)}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = append(s.waiting, c)
		s.assignLocked()
		return c
	}
	first, second, third := begin(one), begin(one), begin(one)
	waits, last, task := begin(other), begin(one), begin(plain)
	require.Same(t, <-first.given, <-second.given)
	require.Empty(t, third.given, "the window is full")
	seat := s.list[0]
	s.Release(seat, one)
	require.Same(t, seat, <-third.given)
	s.Release(seat, one)
	require.Empty(t, last.given, "another one has waited for longer")
	s.Release(seat, one)
	require.Equal(t, other.Run, (<-waits.given).Run)
	require.Empty(t, last.given)
	s.Release(seat, other)
	require.Same(t, seat, <-last.given)
	s.Release(seat, one)
	require.Same(t, seat, <-task.given)
	next := begin(one)
	require.Empty(t, next.given, "a task takes all of it")
	s.Release(seat, plain)
	require.Same(t, seat, <-next.given)

	gone, end := context.WithCancel(t.Context())
	end()
	require.Nil(t, s.Acquire(gone, other, false))
	require.Empty(t, s.waiting)
}
