package proc

import (
	"errors"
	"os"
	"syscall"

	"crew/runner/catch"
)

// JobControl lets tasks stop and go on with crew, until stop is called. They
// are not of the terminal's foreground group, so Ctrl-Z reaches crew alone: at
// SIGTSTP it stops every task's group and then itself, and at SIGCONT lets them
// go on. The time that tasks have stands still meanwhile. Where SIGTSTP was
// ignored when the process began, it stays so.
func (l *Local) JobControl() (stop func(), err error) {
	if catch.Ignored(syscall.SIGTSTP) {
		return func() {}, nil
	}
	stops, conts := make(chan syscall.Signal, 1), make(chan syscall.Signal, 1)
	if err := errors.Join(catch.Take(stops, syscall.SIGTSTP), catch.Take(conts, syscall.SIGCONT)); err != nil {
		return nil, err
	}
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
		close(quit)
		<-done
		catch.Reset(syscall.SIGTSTP)
	}, nil
}
