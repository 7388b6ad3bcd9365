package proc

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/linux"
	"crew/runner/task"
)

// reportStopped tells the user about each task that has stopped, once. crew calls it
// once a second. It takes one system call unless something has stopped, so a task
// costs neither a thread nor a signal for this.
func (l *Local) reportStopped() {
	if l.terminal != nil || !l.groups.starting.TryRLock() {
		return // the attempt sees to it; or crew itself stops them
	}
	defer l.groups.starting.RUnlock()
	for {
		pid, sig := linux.Stopped(unix.P_ALL, 0)
		if pid == 0 {
			return
		}
		l.groups.each(func(p *process) {
			if p.pid == pid && !p.stopped {
				p.stopped = true
				l.notice(p.whyStopped(sig))
			}
		})
	}
}

// whyStopped says that a signal has stopped the task, and the way out.
func (p *process) whyStopped(sig syscall.Signal) string {
	const width = 60
	name := fmt.Sprintf("%s (%s)", nameOfAttempt(p.attempt), task.Shorten(p.attempt.Task.Words(p.attempt.Argv()), width))
	if sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
		return fmt.Sprintf("%s has stopped because it wants the terminal: --tty gives it to tasks; kill -KILL -%d ends it", name, p.pid)
	}
	return fmt.Sprintf("%s was stopped by %s: kill -CONT -%d lets it go on", name, unix.SignalName(sig), p.pid)
}
