package web

import (
	"bytes"
	"context"
	"syscall"

	"crew/runner/show/history"
	"crew/runner/steer/control"
)

// follow watches the run until it is over or ctx ends. The run first repeats what happened before.
func (r *run) follow(ctx context.Context) {
	h := r.now().Hello
	var tails history.Tails // of the attempt in the next line
	how := control.Watch(ctx, h, func(line []byte, reply *control.Reply) error {
		switch {
		case reply.Hello != nil:
			if !sameRun(&h, reply.Hello) { // another run has its process ID now
				return &control.Unreachable{PID: h.PID, Err: syscall.ECONNREFUSED}
			}
			r.startOver(*reply.Hello)
		case reply.Stream != "":
			tails.Add(reply.Stream, reply.Data)
		case reply.Event != nil:
			r.add(bytes.Clone(line), reply, tails.Shown())
			tails = history.Tails{}
		}
		r.setStatus(reply.Run)
		return nil
	})
	if how != "" {
		r.end(how)
	}
}
