package series

import (
	"cmp"
	"sync"
	"time"

	"crew/runner/decide/task"
)

// longestPause is the longest time between two samples of the machine.
const longestPause = 10 * time.Second

// Live builds the curves of a run from its events, and from samples of the machine. It is a runner.Sink, and
// safe for concurrent use.
type Live struct {
	mu    sync.Mutex
	run   Builder
	start int64 // until the first sample; then 0
	stats task.Stats

	// for a queue

	path    string     // of the file
	archive []*Builder // minutes and days
	saved   time.Time  // when the file was written
}

// NewLive returns a Live for a run that begins now.
func NewLive() *Live {
	l := &Live{start: time.Now().UnixNano()}
	l.run.Set(Covered, 1, l.start)
	return l
}

// each calls do with all builders.
func (l *Live) each(do func(b *Builder)) {
	do(&l.run)
	for _, b := range l.archive {
		do(b)
	}
}

// Consume counts the events of a batch. It never fails.
func (l *Live) Consume(batch []task.Event) error {
	if len(batch) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.stats.WithoutEarlier()
	for i := range batch {
		l.stats.Apply(&batch[i])
	}
	is, at := l.stats.WithoutEarlier(), l.stats.Last.UnixNano()
	l.each(func(b *Builder) {
		b.Count(Ended, float64(is.Finished()-was.Finished()), at)
		b.Count(Failed, float64(is.Failed()-was.Failed()), at)
		b.Set(Running, float64(is.Running), at)
		b.Set(Waiting, float64(l.stats.Waiting()), at)
	})
	return nil
}

// Close writes the figures of a queue. The totals do not matter.
func (l *Live) Close(task.Stats) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.archive != nil {
		l.saveLocked(time.Now())
		l.archive = nil
	}
	return nil
}

// Sample adds the memory in use and the load of the machine. The first ones count from the start of the run. It
// returns when it should be called again.
func (l *Live) Sample(memory, load float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	at := cmp.Or(l.start, now.UnixNano())
	l.start = 0
	l.each(func(b *Builder) {
		b.Set(Memory, memory, at)
		b.Set(Load, load, at)
	})
	if l.archive != nil && now.Sub(l.saved) >= time.Minute {
		l.saveLocked(now)
	}
	return min(max(leastWidth, time.Duration(l.run.width)), longestPause)
}

// Curves returns the curves of the run so far and, for a queue, the curves of the last day and the last year.
func (l *Live) Curves() (all []Curves) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each(func(b *Builder) { all = append(all, b.Curves(time.Now().UnixNano())) })
	return all
}
