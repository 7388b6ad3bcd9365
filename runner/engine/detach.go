package engine

import (
	"context"
	"crypto/aes"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner"
	"crew/runner/task"
	"crew/runner/wiring"
)

const (
	handingSlots = 64                     // tasks on their way to the stream at once
	handAgain    = 200 * time.Millisecond // after the stream did not take one
)

// detacher is the executor of a run that hands its tasks over: an attempt has ended
// when the engine has its message.
type detacher struct {
	still
	x      *submitter // makes the messages; nothing of it runs
	record Enrolment
	told   *once
	sent   atomic.Int64
}

// still is the part of an executor none of whose attempts takes long.
type still struct{}

// Kill does nothing. See runner.Executor.
func (still) Kill(uint64, int) {}

// Suspend does nothing. See runner.Executor.
func (still) Suspend() {}

// Resume does nothing. See runner.Executor.
func (still) Resume() {}

// detach returns the executor of a run with --detach. It takes the connection over, and
// fails if workers are there and none runs the command.
func detach(sub wiring.Submission, s *session) (*detacher, error) {
	sum, _ := digest(sub.Command)
	live, err := s.present(context.Background(), sub.Queue, func(Presence, time.Duration) {})
	if err == nil {
		err = (&submitter{sub: sub, template: sum}).refusesAll(live)
	}
	var d *detacher
	if err == nil {
		d, err = newDetacher(sub, s, sum)
	}
	if err != nil {
		s.close()
		return nil, notReady(err)
	}
	go func() { // a command waits until the run has begun
		sub.Do(task.Command{Op: task.Join, N: handingSlots})
	}()
	return d, nil
}

// newDetacher enrols a run whose tasks are for a command with a digest.
func newDetacher(sub wiring.Submission, s *session, template [32]byte) (d *detacher, err error) {
	id := newIdentity()
	d = &detacher{
		x: &submitter{sub: sub, s: s, run: id.Run, epoch: id.Epoch, template: template}, told: &once{notice: sub.Notice},
		record: newEnrolment(sub.Name, id),
	}
	d.record.Secret, d.record.Detached = id.Secret, true
	if d.x.secret, err = aes.NewCipher(id.Secret); err == nil {
		err = d.enrol() // from now on crew engine cancel finds it
	}
	return d, err
}

func (d *detacher) enrol() error {
	return d.x.s.enrol(context.Background(), d.x.sub.Queue, d.record, 0)
}

// complete says that all tasks of the run are handed over.
func (d *detacher) complete(tasks uint64) error {
	d.record.State, d.record.Tasks = handedOver, tasks
	if err := d.enrol(); err != nil {
		return fmt.Errorf("say that run %s is handed over: %w", d.record.Run, err)
	}
	return nil
}

// withdraw removes what was handed over.
func (d *detacher) withdraw() error {
	return d.x.s.drop(context.Background(), &runStatus{Queue: d.x.sub.Queue, Enrolment: d.record})
}

// errAfter is the error of a task that cannot be handed over.
var errAfter = errors.New("workers take what is handed over as they are free, and do not wait for other tasks: drop --detach")

// errTerms is the error of a task with a priority or weight.
var errTerms = errors.New("workers take what is handed over in its order, one task a place: leave out priority and weight, or drop --detach")

// Run hands an attempt over. See runner.Executor.
func (d *detacher) Run(ctx context.Context, a task.Attempt) *task.Result {
	switch terms := a.Task.Terms(); {
	case len(terms.After) > 0:
		return outcome(a, task.StartFailed, errAfter, false)
	case terms.Priority != 0, terms.Weight > 1:
		return outcome(a, task.StartFailed, errTerms, false)
	}
	if err := d.hand(ctx, a); err != nil {
		return outcome(a, task.EndedBy(context.Cause(ctx)), err, false)
	}
	d.sent.Add(1)
	return outcome(a, task.OK, nil, false)
}

// hand hands an attempt over.
func (d *detacher) hand(ctx context.Context, a task.Attempt) error {
	x := d.x
	f := &flight{attempt: a, id: ID{x.run, x.epoch, a.Task.ID, a.Number}, token: x.token(x.epoch, a.Task.ID, a.Number)}
	m, err := x.message(f)
	if err != nil {
		return err
	}
	m.Slot = 0 // that where it runs
	msg, _, err := x.s.pack(ctx, m.ID, m.Encode())
	if err != nil {
		return err
	}
	return d.publish(ctx, taskSubject(x.sub.Queue, anyone, x.run), m.ID, msg)
}

// publish has a stream take a message, and tries until ctx is done.
func (d *detacher) publish(ctx context.Context, subject string, id ID, msg []byte) error {
	for {
		// Even if ctx is done: what is under way could not be withdrawn.
		_, err := d.x.s.js.Publish(context.WithoutCancel(ctx), subject, msg, jetstream.WithMsgID(id.name()))
		switch api, ok := errors.AsType[*jetstream.APIError](err); {
		case err == nil:
			return nil
		case ok && api.ErrorCode == codeFull:
			d.told.say("a stream of the engine is full: waiting until there is room")
		case d.x.s.nc.IsConnected():
			d.told.say("the engine does not take a task: " + err.Error() + ": trying again")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(handAgain):
		}
	}
}

// Close closes the connection.
func (d *detacher) Close() error {
	d.x.s.close()
	return nil
}

// Sink returns the sink that gets the run's events.
func (d *detacher) Sink() runner.Sink { return handOver{d} }

// handOver is the sink of a run that hands its tasks over.
type handOver struct{ *detacher }

// Consume brings the results of tasks that cannot be run. See runner.Sink.
func (d handOver) Consume(events []task.Event) error {
	for i := range events {
		e := &events[i]
		if e.Kind != task.Finished || e.Result.Outcome != task.StartFailed {
			continue
		}
		x, r := d.x, e.Result
		f := &Final{
			ID: ID{x.run, x.epoch, e.ID, 1}, Token: x.token(x.epoch, e.ID, 1), Facts: r.Facts(), Argv: r.Task.Argv,
			Records: r.Task.Records, Object: r.Task.Object,
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := d.publish(ctx, resultSubject(x.sub.Queue, x.run), f.ID, f.Encode())
		cancel()
		if err != nil {
			return fmt.Errorf("hand the result of task %d over: %w", e.ID, err)
		}
	}
	return nil
}

// Close says that all tasks are handed over, and prints the run, or withdraws them. See
// runner.Sink.
func (d handOver) Close(st task.Stats) error {
	if st.InputEnd && st.Of(task.Cancelled)+st.Of(task.NotRun) == 0 {
		if err := d.complete(uint64(st.Admitted)); err != nil {
			return err
		}
		_, err := fmt.Fprintln(d.x.sub.Out, d.record.Run)
		return err
	}
	if err := d.withdraw(); err != nil {
		return err
	}
	d.x.sub.Notice(fmt.Sprintf("not all tasks were handed over: those that were, %d, are withdrawn", d.sent.Load()))
	return nil
}

// Add hands values over to the workers of a queue, each of them a task, and returns the
// run that they make up. The workers' command must be the same.
func Add(v wiring.Values) (run string, err error) {
	s, err := connect(v.URL, v.Notice)
	if err != nil {
		return "", err
	}
	defer s.close()
	template, err := s.commandOf(v.Queue)
	if err != nil {
		return "", err
	}
	d, err := newDetacher(wiring.Submission{Place: wiring.Place{Queue: v.Queue}, Notice: v.Notice}, s, template)
	if err != nil {
		return "", err
	}
	tasks := uint64(0)
	err = v.Each(func(value string) error {
		tasks++
		t := &task.Task{ID: tasks, Key: v.Key, Records: [][]string{{value}}}
		return d.hand(context.Background(), task.Attempt{Task: t, Number: 1})
	})
	if err == nil {
		err = d.complete(tasks)
	}
	if err != nil {
		return "", errors.Join(err, d.withdraw())
	}
	return d.record.Run, nil
}

// commandOf returns the digest of the command that the workers of a queue run.
func (s *session) commandOf(queue string) (sum [32]byte, err error) {
	live, err := s.present(context.Background(), queue, func(Presence, time.Duration) {})
	if err != nil {
		return sum, fmt.Errorf("look for workers: %w", notReady(err))
	}
	found := ""
	for _, w := range live {
		switch {
		case w.Template == "":
		case found != "" && w.Template != found:
			return sum, fmt.Errorf("the workers of queue %s run different commands: start them with the same one, or in queues of their own", queue)
		default:
			found = w.Template
		}
	}
	if found == "" {
		return sum, fmt.Errorf("no worker of queue %s is there, whose command the values would be for: start crew worker first", queue)
	}
	b, err := hex.DecodeString(found)
	if err != nil || len(b) != len(sum) {
		return sum, errors.New("a worker of queue " + queue + " tells garbage of its command")
	}
	return [32]byte(b), nil
}
