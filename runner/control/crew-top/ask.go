package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"crew/runner/control"
)

const (
	lookEvery = time.Second            // between two looks at the run
	lookLeast = 500 * time.Millisecond // the same, after something was done
)

// connect starts to exchange requests and answers with the run, and to learn of its end.
// The goroutines end with the program, or before it with the run.
func (a *app) connect(hello control.Hello) {
	a.looked = time.Now()
	a.hello, a.status.State = hello, hello.State
	a.follow = func(l *log) { go a.followLog(hello, l) }
	over := make(chan struct{})
	go a.exchange(hello, over)
	go func() {
		defer close(over)
		a.watch(hello)
	}()
}

// ask sends a request, and returns the last reply. Its connection is its own, as the run closes
// those that idle if there are too many.
func ask(hello control.Hello, r control.Request) (last *control.Reply, err error) {
	return control.Ask(context.Background(), hello, r, nil)
}

// exchange looks at the run again and again, sends it the requests one after another,
// and posts the answers, until the run is over.
func (a *app) exchange(hello control.Hello, over <-chan struct{}) {
	m := &meter{list: processes}
	for last, wait := (time.Time{}), lookEvery; ; {
		select {
		case <-over:
			return
		case request := <-a.asks:
			reply, err := ask(hello, request)
			a.post(func() { a.answered(&request, reply, err) })
			wait = lookLeast
		case <-time.After(time.Until(last.Add(wait))):
			last, wait = time.Now(), lookEvery
			reply, err := ask(hello, control.Request{Op: "status"})
			if err != nil || reply.Run == nil {
				continue // the watch knows whether the run is over
			}
			used := m.measure(time.Now(), attempts(reply.Run))
			a.post(func() {
				if a.over == "" {
					a.learn(reply.Run, used, time.Now())
				}
			})
		}
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
	switch {
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
}

// watch waits for the end of the run, and posts how it ended.
func (a *app) watch(hello control.Hello) {
	watch := func() (*control.Reply, error) { return ask(hello, control.Request{Op: "watch"}) }
	last, how := control.UntilOver(context.Background(), watch, func(err error) {
		a.post(func() { a.message = "the end of the run will not be seen: " + err.Error() })
	})
	a.post(func() {
		if last != nil && last.Run != nil {
			a.learn(last.Run, nil, time.Now())
		}
		a.end(how)
	})
}

// followLog posts the output of a task to a log, until it is left.
func (a *app) followLog(hello control.Hello, l *log) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	a.post(func() { l.close = leave })
	_, err := control.Ask(ctx, hello, control.Request{Op: "log", Tasks: []uint64{l.id}, Follow: true}, func(_ []byte, r *control.Reply) error {
		a.post(func() { l.take(r) })
		return nil
	})
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
