package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	whyWorker = -1                           // not a worker, but where it says why nothing starts
	moreTID   = 1 << 20                      // the first thread that is no worker's first row
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

// rows are the threads of a worker, those first that were free first.
type rows struct {
	list []row
	n    int
}

type row struct {
	free micros // since when
	tid  int
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
// the worker's rows that are free, the one that is free for the shortest time is taken.
// So there are few whether things come as they began or as they ended.
func (t *Trace) place(host string, n int, from, to micros) (pid, tid int, start, end micros) {
	pid = t.host(host)
	w := worker{host, n}
	r := t.lanes.workers[w]
	if r == nil {
		r = &rows{}
		t.lanes.workers[w] = r
	}
	rounded := from + min((to-from)/4, slack)
	i, _ := slices.BinarySearchFunc(r.list, rounded, func(x row, at micros) int {
		return cmp.Or(cmp.Compare(x.free, at), -1)
	})
	if i == 0 {
		r.n++
		tid = t.thread(pid, n, r.n)
	} else {
		tid, from = r.list[i-1].tid, max(from, r.list[i-1].free)
		r.list = slices.Delete(r.list, i-1, i)
	}
	to = max(from, to)
	i, _ = slices.BinarySearchFunc(r.list, to, func(x row, at micros) int { return cmp.Compare(x.free, at) })
	r.list = slices.Insert(r.list, i, row{to, tid})
	return pid, tid, from, to
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
