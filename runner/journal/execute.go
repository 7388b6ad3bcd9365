package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"crew/runner/task"
)

// executor runs attempts.
type executor interface {
	Run(ctx context.Context, a task.Attempt) *task.Result
}

// Executor records attempts around another executor. It is a runner.Executor,
// and like it safe for concurrent use.
type Executor struct {
	journal *Journal
	exec    executor
	lines   sync.Pool // of *[]byte
}

// Executor is exec with a record of what it does.
func (j *Journal) Executor(exec executor) *Executor {
	x := &Executor{journal: j, exec: exec}
	x.lines.New = func() any { return new([]byte) }
	return x
}

// Run runs an attempt. When it returns, the journal's file says how that ended,
// though not yet for good: that comes with the sink. What cannot be written the
// sink reports.
func (x *Executor) Run(ctx context.Context, a task.Attempt) *task.Result {
	j := x.journal
	buf := x.lines.Get().(*[]byte)
	*buf = appendStarted((*buf)[:0], a, time.Now())
	_ = j.append(*buf)
	x.lines.Put(buf)

	r := x.exec.Run(ctx, a)
	if j.final(r) {
		j.ended(a.Task, r, j.attempts(a.Task.ID, nil))
		return r
	}
	j.attempts(a.Task.ID, r)
	buf = x.lines.Get().(*[]byte)
	*buf = appendResult((*buf)[:0], evAttempt, a.Task, r, nil)
	_ = j.append(*buf)
	x.lines.Put(buf)
	return r
}

// final says whether an attempt that ended so finishes its task, whatever the
// run does next.
func (j *Journal) final(r *task.Result) bool {
	switch {
	case !j.counts(r):
		return false
	case r.Outcome == task.OK:
		return true
	}
	return j.cfg.Final == nil || j.cfg.Final(r)
}

// counts says whether a task that ended so is done, and need not run again when
// the run is resumed.
func (j *Journal) counts(r *task.Result) bool {
	if r.Fault != nil || r.BadCommand && j.cfg.SameCommand {
		return false
	}
	return r.Outcome == task.OK || r.Outcome.Failed()
}

// attempts are the failed attempts of a task with r as the latest, where they
// are to be kept until its end. With that, for which r is nil, they are gone.
func (j *Journal) attempts(id uint64, r *task.Result) []*task.Result {
	if j.cfg.Show != KeptAll {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.before[id]
	if r == nil {
		delete(j.before, id)
	} else {
		j.before[id] = append(before, r)
	}
	return before
}

// ended records how a task ended, with its outputs and those before.
func (j *Journal) ended(t *task.Task, r *task.Result, before []*task.Result) {
	if j.failure() != nil {
		return
	}
	stdout, stderr, err := j.out.save(r)
	var earlier place
	if err == nil && len(before) > 0 {
		earlier, err = j.out.saveAttempts(t, before)
	}
	if err != nil {
		j.fail(fmt.Errorf("keep output: %w", err))
		return
	}
	_ = j.append(appendResult(nil, evEnded, t, r, func(b []byte) []byte {
		b = appendPlace(b, streams[0], stdout)
		b = appendPlace(b, streams[1], stderr)
		b = appendPlace(b, streams[2], earlier)
		switch j.cfg.Show {
		case Streamed:
			b = append(b, `,"streamed":true,"released":true`...)
		case HeldBack:
			b = append(b, `,"streamed":true`...)
		case Dropped:
			b = append(b, `,"dropped":true`...)
		}
		return b
	}))
}
