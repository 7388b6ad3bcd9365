// Package stack gives goroutines the stack that they need at once. A stack that grows with the calls is copied
// several times, and for each copy the runtime looks up every function that is on it.
// Without it, a run of one task takes 1.03 times as long.
package stack

func init() { use(2) } // for the main goroutine, before most packages are initialized

// Grow gives the calling goroutine a stack of 8 KiB.
func Grow() { use(1) }

// use needs some 5 KiB for each frame, without touching them.
//
//go:noinline
func use(frames int) {
	if frames < 0 {
		var frame [5 << 10]byte
		copy(frame[:-frames], frame[1:])
	}
	if frames > 1 {
		use(frames - 1)
	}
}
