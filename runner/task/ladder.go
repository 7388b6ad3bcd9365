package task

import "time"

// Ladder is how far the end of an attempt, or of its worker, has come: it is asked to end,
// and killed if it lives on after its grace, again and again until it is gone.
type Ladder uint8

// The rungs.
const (
	Untouched Ladder = iota
	Asked
	Killed
)

// KillAgain is the interval at which a kill is repeated.
const KillAgain = time.Second

// Step goes on to Asked or, with kill, to Killed, and returns how long to wait before it
// is stepped with kill. ok is false if that was done before.
func (l *Ladder) Step(kill bool, grace time.Duration) (wait time.Duration, ok bool) {
	switch {
	case kill:
		*l = Killed
		return KillAgain, true
	case *l == Untouched:
		*l = Asked
		return grace, true
	}
	return 0, false
}
