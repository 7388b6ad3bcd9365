package view

import (
	"cmp"
	"fmt"

	"crew/runner/show/history"
)

const stallThread = -1 // the thread that shows why nothing starts

// rows are the rows of a worker. Each row is a thread of the trace.
type rows struct {
	history.Rows
	threads []int
}

// host returns the process ID of a host. A new host gets the next one.
func (t *Trace) host(name string) int {
	pid := t.hosts[name]
	if pid == 0 {
		pid = len(t.hosts) + 1
		t.hosts[name] = pid
		t.metadata(pid, 0, "process_name", "name", cmp.Or(show(name), "this machine"))
		t.metadata(pid, 0, "process_sort_index", "sort_index", pid)
	}
	return pid
}

// metadata writes a metadata event of a process or a thread.
func (t *Trace) metadata(pid, tid int, what, name string, value any) {
	t.put(&event{Name: what, Ph: "M", PID: pid, TID: tid, Args: map[string]any{name: value}})
}

// place returns the process and thread for a slice from from to to, and the times at which to draw it.
func (t *Trace) place(host string, n int, from, to micros) (pid, tid int, start, end micros) {
	pid = t.host(host)
	w := history.Lane{Host: host, Worker: n}
	r := t.workers[w]
	if r == nil {
		r = &rows{}
		t.workers[w] = r
	}
	row, begin, over := r.Take(int64(from), int64(to))
	if row == len(r.threads) {
		r.threads = append(r.threads, t.thread(pid, n, row+1))
	}
	return pid, r.threads[row], micros(begin), micros(over)
}

// thread creates and names a thread for a row of a worker.
func (t *Trace) thread(pid, n, row int) int {
	name := fmt.Sprint("worker ", n)
	switch {
	case n == stallThread:
		name = "why nothing starts"
	case n == 0:
		name = fmt.Sprint("row ", row)
	case row > 1:
		name += fmt.Sprint(", row ", row)
	}
	t.threads++
	t.metadata(pid, t.threads, "thread_name", "name", name)
	t.metadata(pid, t.threads, "thread_sort_index", "sort_index", n*1000+min(row, 999))
	return t.threads
}
