package web

import (
	"bytes"
	"context"
	"syscall"

	"crew/runner/steer/control"
)

// follow watches the run until it is over or ctx ends. The run first repeats what happened before.
func (r *run) follow(ctx context.Context) {
	h := r.listed().Hello
	var output []byte // the end of the output of the attempt in the next line; nil if unknown
	how := control.Watch(ctx, h, func(line []byte, reply *control.Reply) error {
		switch {
		case reply.Hello != nil:
			if !sameRun(&h, reply.Hello) { // another run has its process ID now
				return &control.Unreachable{PID: h.PID, Err: syscall.ECONNREFUSED}
			}
			r.startOver(*reply.Hello)
		case reply.Stream != "":
			output = append(bytes.Clone(output), reply.Data...)
		case reply.Event != nil:
			r.add(bytes.Clone(line), reply, output)
			output = nil
		}
		r.setStatus(reply.Run)
		return nil
	}, func(error) {})
	if how != "" {
		r.end(how)
	}
}
