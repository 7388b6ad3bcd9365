package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/front/wiring"
)

const (
	requestLook  = 100 * time.Millisecond // how often the hub looks for a request
	requestWait  = 4 * time.Second        // how long the hub waits for a request before it replies to a crew serve without one
	maxRequest   = 8 << 20                // bytes of a request to add tasks
	maxAnnounced = 100                    // how many requests the hub announces

	takenExt = ".taken"
	takenFor = 10 * time.Minute // how long the hub remembers a request that was taken; until then its sender may send it again
)

var errTaken = errors.New("a crew serve has taken it")

// takenPath returns the path of the file that marks a request as taken.
func (d *dispatcher) takenPath(run string) string { return filepath.Join(d.dir, run+takenExt) }

func (d *dispatcher) isTaken(run string) bool {
	_, err := os.Stat(d.takenPath(run))
	return err == nil && validName(run)
}

// Leave connects to a hub and calls each with a function that leaves a request to add tasks there for a crew
// serve. When leave returns nil, the request is on the hub's disk.
func Leave(c *wiring.Call, each func(leave func(line []byte) error) error) error {
	wait := max(c.Ctl.Block, 2*answerWait)
	s, err := connectHub(c.Ctl.URL, c.Notice)
	for end := time.Now().Add(wait); (errors.Is(err, errNoServer) || errors.Is(err, errNoAnswer)) && time.Now().Before(end); time.Sleep(reconnectWait) {
		s, err = connectHub(c.Ctl.URL, c.Notice)
	}
	if err != nil {
		return err
	}
	defer s.close()
	return each(func(line []byte) error {
		record := runRecord{RunInfo: newRunInfo("", "", s.user, newIdentity())}
		record.For, record.Progress = c.Ctl.Run, &Progress{}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		err := s.handOver(ctx, &record, spool.Text(line), int64(len(line)))
		if err != nil && err != ctx.Err() {
			err = fmt.Errorf("leave the tasks at the hub: %w", err)
		}
		return err
	})
}

// oldestRequest returns the ID of the oldest request for a crew serve of the user, or "".
func (d *dispatcher) oldestRequest(user, name string) (run string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := uint64(math.MaxUint64)
	for _, h := range d.runs {
		r := &h.record
		if r.For == name && r.User == user && r.Epoch < oldest && h.state() == runLeft {
			run, oldest = r.Run, r.Epoch
		}
	}
	return run
}

// nextRequest removes the request that the crew serve has taken last, if any, and returns the oldest
// of the others. It waits for one up to requestWait.
func (d *dispatcher) nextRequest(o *Order, a *Answer) error {
	if o.For == "" {
		return errGarbage
	}
	d.mu.Lock()
	h := d.runs[o.Run]
	d.mu.Unlock()
	if h != nil && h.record.For == o.For && h.record.User == o.from {
		if err := d.forget(h); err != nil {
			return err
		}
	}
	for end := time.Now().Add(requestWait); ; {
		a.Run = d.oldestRequest(o.from, o.For)
		if a.Run != "" || time.Now().After(end) || !sleep(d.ctx, requestLook) {
			return nil
		}
	}
}

// takeRequests passes the requests that are left for this run at the hub to the run, one after
// another. The hub keeps each until the run has recorded it.
func (x *submitter) takeRequests() {
	o := Order{Op: opNext, For: x.Control.Name}
	for x.ctx.Err() == nil {
		a, err := x.s.askUntilDone(x.ctx, o)
		if a.None {
			x.Notice("the hub cannot take requests to add tasks to this run: " + task.Printable(a.Err))
		}
		if err != nil {
			return
		}
		if o.Run = a.Run; a.Run == "" {
			continue
		}
		at := &attached{s: x.s, run: &RunInfo{Run: a.Run}, ctx: x.ctx}
		line, err := io.ReadAll(at.lines(tasksFile))
		if x.ctx.Err() != nil {
			return
		}
		for later := err == nil; later; {
			if later, err = x.Arrive(a.Run, line); later && !sleep(x.ctx, retryWait) {
				return
			}
		}
		if err != nil {
			x.Notice("cannot add tasks that were left at the hub: " + task.Printable(err.Error()))
		}
	}
}
