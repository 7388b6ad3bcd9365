package proc

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// JobControl lets tasks stop and go on with crew, until stop is called. They
// are not of the terminal's foreground group, so Ctrl-Z reaches crew alone: at
// SIGTSTP it stops every task's group and then itself, and at SIGCONT lets them
// go on. The time that tasks have stands still meanwhile. Where SIGTSTP was
// ignored when the process began, it stays so.
func (l *Local) JobControl() (stop func()) {
	if ignored(syscall.SIGTSTP) {
		return func() {}
	}
	stops, conts := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP)
	signal.Notify(conts, syscall.SIGCONT)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-stops:
			}
			select {
			case <-conts: // an old one
			default:
			}
			l.groups.stop()
			// SIGSTOP and not the default action of SIGTSTP, which is none in
			// an orphaned process group. It may take hold a moment after kill
			// returns, so what ends the stop is SIGCONT.
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err == nil {
				select {
				case <-conts:
				case <-quit:
				}
			}
			l.groups.goOn()
		}
	}()
	return func() {
		signal.Stop(stops)
		signal.Stop(conts)
		close(quit)
		<-done
	}
}

// ignored says whether a signal is ignored that nobody here has asked for yet.
// signal.Ignored knows of SIGHUP and SIGINT alone what they were at the start.
func ignored(sig syscall.Signal) bool {
	const sigIgn = 1
	var action [8]uintptr // struct sigaction of rt_sigaction(2): the handler, and what follows
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
	return errno == 0 && action[0] == sigIgn
}
