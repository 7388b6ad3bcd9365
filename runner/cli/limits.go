package cli

import "syscall"

const (
	// argMaxLeast is what execve takes whatever the stack limit is, and
	// argMaxMost what Linux takes at most (execve(2), ARG_MAX).
	argMaxLeast = 128 << 10
	argMaxMost  = 6 << 20
	// argMaxSpare is left free: for the variables that crew adds, for the
	// kernel's own, and because xargs leaves as much.
	argMaxSpare = 4096
	pointer     = 8
)

// argMax is how many bytes of arguments, each with its NUL and its pointer, a
// command may have beside an environment.
func argMax(environ []string) int {
	most := argMaxLeast
	var stack syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &stack); err == nil {
		most = int(min(max(stack.Cur/4, argMaxLeast), argMaxMost))
	}
	for _, kv := range environ {
		most -= len(kv) + 1 + pointer
	}
	return max(most-argMaxSpare, argMaxSpare)
}
