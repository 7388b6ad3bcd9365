package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	whyWorker = -1      // not a worker, but where it says why nothing starts
	moreTID   = 1 << 20 // the first thread that is no worker's first row
	mostGaps  = 200     // in which a thread was free, for things that come late
	forever   = micros(math.MaxInt64)
	slack     = micros(2 * time.Millisecond) // by which times may be rounded
)

// lanes are the processes and threads of a trace.
type lanes struct {
	hosts   map[string]int // the process of each; 1 for this machine
	workers map[worker]*rows
	more    int // threads that are no worker's first row
}

type worker struct {
	host string
	n    int
}

// rows are the threads of a worker, and the times in which they are free, as they begin.
type rows struct {
	n    int
	gaps []gap
}

type gap struct {
	from, to micros
	tid      int
}

// host returns the process of a host.
func (t *Trace) host(name string) int {
	if pid, known := t.lanes.hosts[name]; known {
		return pid
	}
	pid, shown := 1, "this machine"
	if name != "" {
		t.host("")
		pid, shown = len(t.lanes.hosts)+1, tidy(name)
	}
	t.lanes.hosts[name] = pid
	t.about(pid, 0, "process_name", "name", shown)
	t.about(pid, 0, "process_sort_index", "sort_index", pid)
	return pid
}

// about writes something about a process or a thread.
func (t *Trace) about(pid, tid int, what, name string, value any) {
	t.put(&event{Name: what, Ph: "M", PID: pid, TID: tid, Args: map[string]any{name: value}})
}

// place returns the thread of something that lasts, and from when until when it is shown. Of
// the worker's threads that are free, the one that is free for the shortest time is taken.
// So there are few whether things come as they began or as they ended.
func (t *Trace) place(host string, n int, from, to micros) (pid, tid int, start, end micros) {
	pid = t.host(host)
	w := worker{host, n}
	r := t.lanes.workers[w]
	if r == nil {
		r = &rows{}
		t.lanes.workers[w] = r
	}
	rounded := min((to-from)/4, slack)
	i, _ := slices.BinarySearchFunc(r.gaps, from+rounded+1, gap.compare)
	for i--; i >= 0 && r.gaps[i].to < to-rounded; i-- {
	}
	if i < 0 {
		r.n++
		i = 0
		r.gaps = slices.Insert(r.gaps, 0, gap{0, forever, t.thread(pid, n, r.n)})
	}
	g := r.gaps[i]
	r.gaps = slices.Delete(r.gaps, i, i+1)
	from = max(from, g.from)
	to = max(from, min(to, g.to))
	r.add(gap{g.from, from, g.tid})
	r.add(gap{to, g.to, g.tid})
	return pid, g.tid, from, to
}

func (g gap) compare(at micros) int { return cmp.Compare(g.from, at) }

// add adds a time in which a thread is free. Of those in the past, it forgets the first if
// there are too many.
func (r *rows) add(g gap) {
	if g.from == g.to {
		return
	}
	i, _ := slices.BinarySearchFunc(r.gaps, g.from, gap.compare)
	r.gaps = slices.Insert(r.gaps, i, g)
	if len(r.gaps) > mostGaps+r.n {
		first := slices.IndexFunc(r.gaps, func(g gap) bool { return g.to < forever })
		r.gaps = slices.Delete(r.gaps, first, first+1)
	}
}

// thread names a new thread for a row of a worker, and returns it.
func (t *Trace) thread(pid, n, row int) int {
	tid, name := n, fmt.Sprint("worker ", n)
	switch {
	case n == whyWorker:
		name = "why nothing starts"
	case n == 0:
		name = fmt.Sprint("row ", row)
	case row > 1:
		name += fmt.Sprint(", row ", row)
	}
	if n <= 0 || n >= moreTID || row > 1 {
		tid = moreTID + t.lanes.more
		t.lanes.more++
	}
	t.about(pid, tid, "thread_name", "name", name)
	t.about(pid, tid, "thread_sort_index", "sort_index", max(-1, n)*1000+min(row, 999))
	return tid
}
