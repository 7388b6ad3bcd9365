package proc

import (
	"runtime"
	"time"
)

const (
	// manyBrief is how many brief attempts, one after another, make a run of them.
	manyBrief = 64
	// briefest is how long an attempt has to take for the runtime to notice that
	// its thread waits.
	briefest = 200 * time.Microsecond
)

// lasted says how long an attempt took.
func (l *Local) lasted(d time.Duration) {
	live := l.live.Load()
	l.seats.lasted(d, live)
	if l.brief.Load() >= manyBrief || l.lack.threads.Load() {
		return
	}
	if d < briefest || d >= brief {
		l.brief.Store(0)
		return
	}
	if procs := runtime.GOMAXPROCS(0); live > int64(procs) {
		l.brief.Store(0)
	} else if l.brief.Add(1) == manyBrief {
		// Each worker's thread holds one of these while it waits for its task.
		// With none left, the runtime takes it away each time, and wakes a
		// thread to do so.
		runtime.GOMAXPROCS(procs + 1)
	}
}
