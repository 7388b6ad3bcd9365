package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestSeats plays the stories of testdata/seats.txt. A line is one of these:
//
//	seats N              there are now so many
//	window N             most records that a process may have
//	take NAME [SLOT [own]]
//	                     an attempt of a slot of a run, such as a1, claims a seat, maybe for the machine's own command
//	has NAME N           the number of its seat; 0 if it waits
//	free NAME            it has ended
//	over RUN             the run is over
//	closed               all runs are
//	dismissed N...       the seats whose processes were ended since
func TestSeats(t *testing.T) {
	crewtest.Stories(t, "testdata/seats.txt", func(t *testing.T, story []string) {
		dismissed, claims, seats := "", map[string]*claim{}, map[string]Seat{}
		s := Seats{Dismiss: func(n int) <-chan struct{} { dismissed += fmt.Sprint(" ", n); return nil }}
		for _, line := range story {
			words := append(strings.Fields(line), "", "", "")
			name := words[1]
			c := claims[name]
			n, _ := strconv.Atoi(name)
			switch words[0] {
			case "window":
				s.Window = n
			case "seats":
				s.Resize(n)
			case "take":
				c = &claim{RunSlot{Run: words[2]}, words[3] == "own", make(chan *Seat, 1)}
				if c.Run != "" {
					c.Run, c.Slot = c.Run[:1], int(c.Run[1])
				}
				claims[name], s.waiting = c, append(s.waiting, c)
				s.assignLocked()
			case "has":
				if len(c.given) > 0 {
					seats[name] = *<-c.given
				}
				require.Equal(t, words[2], fmt.Sprint(seats[name].Number), line)
			case "free":
				s.Release(s.list[seats[name].Number-1], c.RunSlot)
				delete(seats, name)
			case "over":
				s.End(func(seat *Seat) bool { return seat.Run == name })
			case "closed":
				s.endLocked(func(*Seat) bool { return true })
			case "dismissed":
				require.Equal(t, line, "dismissed"+dismissed)
				dismissed = ""
			}
		}
		gone, end := context.WithCancel(t.Context())
		end()
		s.max = 0
		require.Nil(t, s.Acquire(gone, RunSlot{"c", 1, 1}, false))
		require.Empty(t, s.waiting)
	})
}
