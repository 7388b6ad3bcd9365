//go:build amd64 || arm64

package catch

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"
)

// pipe is where the handler writes.
var pipe int32

// action is struct sigaction of rt_sigaction(2).
type action struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	sigDfl   = 0
	sigIgn   = 1
	flags    = 0x4000000 | 0x8000000 | 0x10000000 // SA_RESTORER, SA_ONSTACK as the runtime wants it, SA_RESTART
	allMask  = ^uint64(0)
	maskSize = 8
	signals  = 65
)

var (
	mu     sync.Mutex
	routes [signals]chan<- syscall.Signal
)

// Take has the signals sent to to from now on. It does not block for that, so to
// needs room for those that may come at once. It is safe for concurrent use.
func Take(to chan<- syscall.Signal, sigs ...syscall.Signal) error {
	mu.Lock()
	defer mu.Unlock()
	if pipe == 0 {
		var ends [2]int
		if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
			return fmt.Errorf("take signals: %w", err)
		}
		pipe = int32(ends[1])
		go deliver(os.NewFile(uintptr(ends[0]), "signals"))
	}
	note, _, restore := handlers()
	for _, sig := range sigs {
		routes[sig] = to
		if err := set(sig, &action{note, flags, restore, allMask}, nil); err != nil {
			return fmt.Errorf("take signal %d: %w", sig, err)
		}
	}
	return nil
}

// deliver sends what comes out of the pipe where it belongs.
func deliver(from *os.File) {
	var came [16]byte
	for {
		n, err := from.Read(came[:])
		if err != nil {
			return
		}
		for _, sig := range came[:n] {
			mu.Lock()
			to := routes[sig]
			mu.Unlock()
			select {
			case to <- syscall.Signal(sig):
			default:
			}
		}
	}
}

// SurvivePipes makes a write to a closed pipe an error and no death, on stdout
// and stderr too.
func SurvivePipes() {
	signal.Ignore(syscall.SIGPIPE) // which the runtime asks itself when it sees the error
	_, nothing, restore := handlers()
	_ = set(syscall.SIGPIPE, &action{nothing, flags, restore, allMask}, nil)
}

// Reset gives a signal its default action.
func Reset(sig syscall.Signal) { _ = set(sig, &action{handler: sigDfl}, nil) }

// Ignored says whether a signal is ignored, as it may have been from the start.
func Ignored(sig syscall.Signal) bool {
	var now action
	return set(sig, nil, &now) == nil && now.handler == sigIgn
}

func set(sig syscall.Signal, to, old *action) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), maskSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// handlers is where the code of the handlers is that the kernel calls: one that
// notes the signal, one that does nothing, and what both return to.
func handlers() (note, nothing, restore uintptr)
