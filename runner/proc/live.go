package proc

import "crew/runner/task"

// Live returns the output of a running task and the number of the attempt that
// writes it. The caller closes both. The number is 0 if no process of the task runs
// or its output is not kept. Live is safe for concurrent use.
func (l *Local) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	l.groups.each(func(p *process) {
		if p.attempt.Task.ID != id || p.out.Kept == nil {
			return
		}
		out, err := p.out.Kept.Hold(), p.err.Kept.Hold()
		switch {
		case out != nil && err != nil:
			stdout, stderr, attempt = out, err, p.attempt.Number
		case out != nil: // the attempt has just ended without an stderr
			_ = out.Close()
		case err != nil:
			_ = err.Close()
		}
	})
	return stdout, stderr, attempt
}

// PIDs returns the process IDs of the running tasks. It is safe for concurrent use.
func (l *Local) PIDs() map[uint64]int {
	pids := map[uint64]int{}
	l.groups.each(func(p *process) {
		if p.attempt.Task.Protocol == task.NoProtocol {
			pids[p.attempt.Task.ID] = p.pid
		}
	})
	return pids
}
