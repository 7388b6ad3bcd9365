package engine

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/front/wiring"
)

const (
	passWait     = time.Second // pause before the hub offers a request to a crew serve again
	maxRequest   = 8 << 20     // bytes of a request to add tasks
	maxAnnounced = 100         // how many requests the hub announces
	maxFor       = 64          // bytes of the name of a crew serve; the server closes connections that send too long subjects
)

// doorSubject is where a crew serve takes requests to add tasks: from the hub, or from clients if the
// server is no hub. It is among the subjects of orders to the user's runs.
func doorSubject(user, name string) string {
	return runSubject(user, "to-"+hex.EncodeToString([]byte(name)))
}

// Leave connects to a server and calls each with a function that hands a request to add tasks over to a
// hub there, or to the crew serve itself. When leave returns nil, the request is on the disk of either.
func Leave(c *wiring.Call, each func(leave func(line []byte) error) error) error {
	wait := max(c.Ctl.Block, 2*answerWait)
	s, err := connectWithin(wait, c.Ctl.URL, c.Notice, errNoServer)
	if err != nil {
		return err
	}
	defer s.close()
	return each(func(line []byte) error {
		if len(line) > maxRequest {
			return errors.New("the request is longer than 8 MiB: add less at once")
		}
		record := runRecord{RunInfo: newRunInfo("", "", s.user, newIdentity())}
		record.For, record.Progress = c.Ctl.Run, &Progress{}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		err := s.handOver(ctx, &record, spool.Text(line), int64(len(line)))
		if err != nil && err != ctx.Err() {
			err = fmt.Errorf("leave the tasks for %s: %w", c.Ctl.Run, err)
		}
		return err
	})
}

// startPassing starts passRequests unless it runs.
func (d *dispatcher) startPassing(user, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if door := doorSubject(user, name); !d.passing[door] {
		d.passing[door] = true
		d.wg.Go(func() { d.passRequests(user, name) })
	}
}

// passRequests passes the requests that are left for a crew serve of a user to it, one after another. It
// keeps each until the crew serve has recorded it.
func (d *dispatcher) passRequests(user, name string) {
	for h := d.oldestRequest(user, name); h != nil; h = d.oldestRequest(user, name) {
		passed := h.pass(doorSubject(user, name))
		for !passed && sleep(h.ctx, passWait) {
			passed = h.pass(doorSubject(user, name))
		}
		if passed {
			_ = d.forget(h)
		}
	}
}

// oldestRequest returns the oldest request for a crew serve of a user. If there is none, it returns nil,
// and the next one needs another call of passRequests.
func (d *dispatcher) oldestRequest(user, name string) (oldest *hubRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := uint64(math.MaxUint64)
	for _, h := range d.runs {
		r := &h.record
		if r.For == name && r.User == user && r.Epoch < first && h.ctx.Err() == nil && h.state() == runLeft {
			oldest, first = h, r.Epoch
		}
	}
	d.passing[doorSubject(user, name)] = oldest != nil
	return oldest
}

// pass offers a request to a crew serve. It returns true once the crew serve has recorded it, or has
// refused it for good.
func (h *hubRun) pass(door string) bool {
	f, err := h.file(tasksFile)
	if err != nil {
		return false
	}
	s := h.d.s
	lines := s.blobs.Add(f, h.length(tasksFile))
	defer s.blobs.Drop(lines)
	err = context.DeadlineExceeded
	for a := (Answer{}); errors.Is(err, context.DeadlineExceeded) && h.ctx.Err() == nil; {
		ctx, cancel := context.WithTimeout(h.ctx, answerWait)
		a, err = s.ask(ctx, door, Order{Op: opStore, Run: h.record.Run, Owner: s.user, Tasks: &lines})
		if cancel(); err == nil {
			return a.Err == "" || a.None
		}
	}
	return false
}

// takeRequest carries out the order to add tasks to this run. The sender repeats it until the run has
// recorded the tasks.
func (x *submitter) takeRequest(o *Order, a *Answer) error {
	came := time.Now()
	x.door.Lock()
	defer x.door.Unlock()
	if o.Op != opStore || o.Tasks == nil || o.Tasks.Size < 0 || o.Tasks.Size > maxRequest || !validName(o.Run) {
		return errGarbage
	}
	later, err := x.Arrive(o.Run, nil)
	if err == nil || later {
		return err
	}
	if time.Since(came) >= repeatWait { // the sender has repeated it, or is gone
		return errSilent
	}
	if x.door.run != o.Run {
		ctx, cancel := context.WithCancel(x.ctx)
		defer cancel()
		line := arrival{silence: time.AfterFunc(answerWait, cancel)}
		if x.s.blobs.Pull(ctx, userToken(o.Owner), *o.Tasks, 0, &line) != nil {
			return errors.New("the tasks have not come from their sender")
		}
		x.door.run, x.door.line = o.Run, line.Bytes()
	}
	later, err = x.Arrive(o.Run, x.door.line)
	if !later {
		x.door.run, x.door.line = "", nil
	}
	if a.None = err != nil && !later; a.None {
		x.Notice("cannot add tasks that came from another machine: " + task.Printable(err.Error()))
	}
	return err
}

// arrival is a request to add tasks that is being fetched. silence expires if nothing comes for answerWait.
type arrival struct {
	bytes.Buffer
	silence *time.Timer
}

func (r *arrival) Write(p []byte) (int, error) {
	r.silence.Reset(answerWait)
	return r.Buffer.Write(p)
}
