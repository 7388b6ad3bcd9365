package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/control"
)

// connect starts to exchange requests and answers with the run, and to learn of its end.
// The goroutines end with the program, or before it with the run.
func (a *app) connect(hello control.Hello) {
	a.looked = time.Now()
	a.hello, a.status.State = hello, hello.State
	a.follow = func(l *log) { go a.followLog(hello, l) }
	go a.exchange(hello)
	go a.watch(hello)
}

// call sends a request on a connection of its own: the run closes those that idle if
// there are too many.
func call(hello control.Hello, r control.Request, each func(*control.Reply)) error {
	client, err := control.Dial(hello)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Call(r, func(_ []byte, reply *control.Reply) error { each(reply); return nil })
}

// exchange sends the requests to the run one after another, and posts the answers.
func (a *app) exchange(hello control.Hello) {
	m := &meter{}
	for request := range a.asks {
		var last control.Reply
		err := call(hello, request, func(r *control.Reply) { last = *r })
		if err == nil && last.Run != nil {
			used := m.measure(time.Now(), attempts(last.Run))
			a.post(func() {
				if a.looking = false; a.over == "" {
					a.learn(last.Run, used, time.Now())
				}
			})
			continue
		}
		a.post(func() { a.answered(&request, &last, err) })
	}
}

// attempts returns when the running attempts began, by process id.
func attempts(s *control.Status) map[int]time.Time {
	pids := map[int]time.Time{}
	for i := range s.Tasks {
		if pid := s.Tasks[i].PID; pid > 0 {
			pids[pid] = s.Tasks[i].Start
		}
	}
	return pids
}

// answered shows the answer to a request that steers the run.
func (a *app) answered(request *control.Request, reply *control.Reply, err error) {
	if request.Op == "status" {
		a.looking = false
	}
	switch {
	case request.Op == "status": // the watch knows whether the run is over
		return
	case err != nil:
		a.message = err.Error()
		if what, ok := strings.CutPrefix(a.message, "it "); ok {
			a.message = "the run " + what
		}
	case request.Op == "pause":
		a.message = "paused: running tasks finish; p resumes"
	case request.Op == "cancel":
		a.message = fmt.Sprintf("task %d is being cancelled", request.Tasks[0])
	case request.Op == "retry" && len(reply.Tasks) > 0 && reply.Tasks[0] != request.Tasks[0]:
		a.message = fmt.Sprintf("task %d runs again as task %d", request.Tasks[0], reply.Tasks[0])
	case request.Op == "retry":
		a.message = fmt.Sprintf("task %d is tried again now", request.Tasks[0])
	}
	a.look()
}

// queue says how many tasks wait, and where.
func queue(s *control.Status) string {
	var parts []string
	add := func(n int64, text string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(text, n))
		}
	}
	add(s.Queued, "%d read ahead")
	add(s.Aside, "%d set aside")
	add(s.Held, "%d results held back")
	return strings.Join(parts, ", ")
}

// watch posts how the run ended.
func (a *app) watch(hello control.Hello) {
	for {
		var final *control.Status
		err := call(hello, control.Request{Op: "watch"}, func(r *control.Reply) {
			final = r.Run
		})
		switch {
		case err == nil:
			a.post(func() {
				if final != nil {
					a.learn(final, nil, time.Now())
				}
				a.end("ended")
			})
			return
		case errors.Is(err, os.ErrNotExist): // while nothing was watched
			a.post(func() { a.end("ended") })
			return
		case errors.Is(err, unix.ECONNREFUSED):
			a.post(func() { a.end(killed) })
			return
		case refused(err): // there is no room for one more client
			a.post(func() { a.message = "the end of the run will not be seen: " + err.Error() })
			time.Sleep(patience)
		default: // killed, or it has given up this client, which was stopped
			time.Sleep(again)
		}
	}
}

// refused reports whether err is that of a run that answers.
func refused(err error) bool {
	_, ok := errors.AsType[*control.Refused](err)
	return ok
}

// killed is the outcome of a run that vanished without saying how it ended.
const killed = "killed"

// end records that the run is over.
func (a *app) end(how string) {
	if a.over == "" {
		a.over, a.ask, a.message, a.tasks, a.waits = how, nil, "", nil, nil
	}
}

// followLog posts the output of a task to a log, until it is left.
func (a *app) followLog(hello control.Hello, l *log) {
	client, err := control.Dial(hello)
	if err == nil {
		a.post(func() { l.close = func() { _ = client.Close() } })
		err = client.Call(control.Request{Op: "log", Tasks: []uint64{l.id}, Follow: true}, func(_ []byte, r *control.Reply) error {
			a.post(func() { l.take(r) })
			return nil
		})
		_ = client.Close()
	}
	a.post(func() {
		switch {
		case a.log == l && len(l.lines) == 0 && err != nil:
			a.log, a.message = nil, err.Error()
		case err != nil:
			l.ended = err.Error()
		default:
			l.ended = cmp.Or(l.ended, "ended")
		}
	})
}
