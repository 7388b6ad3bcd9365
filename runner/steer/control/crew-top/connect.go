package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"crew/runner/steer/control"
)

// connect starts to watch the run and to send it requests. The goroutines end with the program.
func (a *app) connect(hello control.Hello) {
	a.looked = time.Now()
	a.hello, a.status.State = hello, hello.State
	go a.watch(hello)
	go func() {
		for request := range a.requests {
			_, err := control.Ask(context.Background(), hello, request, nil)
			a.post(func() {
				if err != nil {
					a.message = err.Error()
				} else if len(request.Tasks) > 0 { // the table may show no effect for a while
					a.message = fmt.Sprintf("asked to %s task %d", request.Op, request.Tasks[0])
				}
			})
		}
	}()
}

// watch posts each status of the run and its curves, and in the end how it ended.
func (a *app) watch(hello control.Hello) {
	m := &meter{list: processes}
	how := control.Watch(context.Background(), hello, func(_ []byte, r *control.Reply) error {
		if r.Run != nil {
			began := map[int]time.Time{} // by process ID
			for _, t := range r.Run.Tasks {
				if t.PID > 0 {
					began[t.PID] = t.Start
				}
			}
			used := m.measure(time.Now(), began)
			a.post(func() { a.update(r.Run, used) })
			if curves := control.Curves(context.Background(), hello); len(curves) > 0 {
				a.post(func() { a.curves = curves[0] })
			}
		}
		return nil
	})
	a.post(func() { a.end(how) })
}

// followLog posts the output of a task to a log, until the log is closed.
func (a *app) followLog(ctx context.Context, hello control.Hello, l *log) {
	_, err := control.Ask(ctx, hello, control.Request{Op: "log", Tasks: []uint64{l.id}, Follow: true}, func(_ []byte, r *control.Reply) error {
		a.post(func() { l.addReply(r) })
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
