package engine

import (
	"context"
	"crypto/aes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/task"
	"crew/runner/wiring"
)

// attached brings the results of a run that was handed over, in input order. As a
// source it waits for each; its attempts only read what there is.
type attached struct {
	still
	x      *submitter // reads the messages; nothing of it runs
	run    *runStatus
	stream jetstream.Stream
	cons   jetstream.ConsumeContext
	gone   jetstream.KeyWatcher

	reading sync.Mutex
	cache   map[uint64][][]byte // bundles that were read last

	mu    sync.Mutex
	news  sync.Cond // something was found, or err is set
	found map[uint64]*found
	next  uint64
	err   error
}

// found locates the messages of a task in the stream.
type found struct {
	parts [2][]part // of stdout and stderr, until the end is there
	final place     // zero if the task has not ended
	at    time.Time // when that was stored
	end   *Final
}

// place locates a message: the bundles of the stream hold several.
type place struct {
	seq uint64 // from 1
	at  int
}

// part locates a chunk.
type part struct {
	place
	off, end int64 // in the output
}

// mostCached limits the bundles that are kept so as not to read them again.
const mostCached = 8

// Attach returns what brings the results of a run that was handed over.
func Attach(c wiring.Attachment) (wiring.Attached, error) {
	s, err := connect(c.URL, c.Notice)
	if err != nil {
		return nil, err
	}
	return attach(c, s)
}

// attach is Attach with a connection, which it takes over.
func attach(c wiring.Attachment, s *session) (*attached, error) {
	a := &attached{
		x:     &submitter{sub: wiring.Submission{Outputs: c.Outputs}, s: s},
		found: map[uint64]*found{}, cache: map[uint64][][]byte{},
	}
	a.news.L = &a.mu
	if err := a.open(context.Background(), c.Run); err != nil {
		s.close()
		return nil, err
	}
	return a, nil
}

func (a *attached) open(ctx context.Context, name string) (err error) {
	s := a.x.s
	if a.run, err = s.find(ctx, name); err != nil {
		return err
	}
	switch r := a.run; {
	case r.Version != Version:
		return fmt.Errorf("run %s was handed over by another crew: %w", r.Run, &versionError{r.Version})
	case !r.Detached:
		return fmt.Errorf("run %s was not handed over: its submitter, process %d on %s, shows the results", r.Run, r.PID, task.Printable(r.Host))
	case r.State != handedOver:
		return fmt.Errorf("run %s is still being handed over by process %d on %s: try again when that has ended", r.Run, r.PID, task.Printable(r.Host))
	}
	a.x.run, a.x.epoch = a.run.Run, a.run.Epoch
	if a.x.secret, err = aes.NewCipher(a.run.Secret); err != nil {
		return errors.New("the record of run " + a.run.Run + " is damaged: cancel it")
	}
	kv, err := s.js.KeyValue(ctx, runsBucket)
	if err != nil {
		return err
	}
	if a.gone, err = kv.Watch(context.Background(), a.run.Queue+"."+a.run.Run, jetstream.UpdatesOnly()); err != nil {
		return err
	}
	go a.watch()
	if a.stream, err = s.js.Stream(ctx, resultsStream); err != nil {
		return err
	}
	a.cons, err = s.follow(ctx, resultSubject(a.run.Queue, a.run.Run), a.receive)
	return err
}

// watch ends the wait for results if the run is removed.
func (a *attached) watch() {
	for e := range a.gone.Updates() {
		if e != nil && e.Operation() != jetstream.KeyValuePut {
			a.fail(fmt.Errorf("run %s was cancelled, or its results were fetched by another crew engine attach", a.run.Run))
		}
	}
}

func (a *attached) fail(err error) {
	a.mu.Lock()
	a.err = err
	a.mu.Unlock()
	a.news.Broadcast()
}

// receive notes where results are. It ignores those that do not come from a worker that
// had the task, and those that come again.
func (a *attached) receive(data []byte, meta *jetstream.MsgMetadata) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := place{seq: meta.Sequence.Stream}
	for msg := range parts(data) {
		a.receiveOne(msg, at, meta.Timestamp)
		at.at++
	}
}

func (a *attached) receiveOne(msg []byte, at place, stored time.Time) {
	if c, err := DecodeChunk(msg); err == nil {
		if f := a.of(c.ID, c.Token); f != nil {
			i := c.stream()
			f.parts[i] = append(f.parts[i], part{at, c.Offset, c.Offset + int64(len(c.Data))})
		}
		return
	}
	fin, err := DecodeFinal(msg)
	if err != nil {
		return
	}
	f := a.of(fin.ID, fin.Token)
	if f == nil {
		return
	}
	whole := true
	for i, n := range [2]int64{fin.StdoutLen - int64(len(fin.Stdout)), fin.StderrLen - int64(len(fin.Stderr))} {
		f.parts[i] = lastRow(f.parts[i], n)
		whole = whole && (n == 0 || f.parts[i] != nil)
	}
	if whole {
		f.final, f.at = at, stored
		a.news.Broadcast()
	}
}

// of returns what was found of a task that has not ended, or nil if a result is not to
// be believed. The caller holds mu.
func (a *attached) of(id ID, t Token) *found {
	if id.Run != a.x.run || id.Task < 1 || id.Task > a.run.Tasks || a.x.token(id.Epoch, id.Task, id.Number) != t {
		return nil
	}
	f := a.found[id.Task]
	if f == nil {
		f = &found{}
		a.found[id.Task] = f
	}
	if f.final != (place{}) {
		return nil
	}
	return f
}

// lastRow returns those of the latest parts that make up an output of n bytes, in
// order, or nil. Others are of workers that were lost.
func lastRow(parts []part, n int64) (row []part) {
	i := len(parts)
	for n > 0 {
		for i--; i >= 0 && parts[i].end != n; i-- {
		}
		if i < 0 || parts[i].off >= n {
			return nil
		}
		row = append([]part{parts[i]}, row...)
		n = parts[i].off
	}
	return row
}

// Next returns the next task once it has ended.
func (a *attached) Next(number func() uint64) (*task.Task, error) {
	a.mu.Lock()
	if a.next == a.run.Tasks {
		a.mu.Unlock()
		return nil, io.EOF
	}
	a.next++
	for a.err == nil && (a.found[a.next] == nil || a.found[a.next].final == place{}) {
		a.news.Wait()
	}
	f, err := a.found[a.next], a.err
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	msg, err := a.get(f.final)
	if err == nil {
		f.end, err = DecodeFinal(msg)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the result of task %d: %w", a.next, err)
	}
	return &task.Task{
		ID: number(), Argv: f.end.Argv, Records: f.end.Records, Object: f.end.Object, Key: string(f.end.Key),
	}, nil
}

// get returns a message.
func (a *attached) get(p place) ([]byte, error) {
	a.reading.Lock()
	defer a.reading.Unlock()
	if a.cache[p.seq] == nil {
		m, err := a.stream.GetMsg(context.Background(), p.seq)
		if err != nil {
			return nil, err
		}
		if len(a.cache) == mostCached {
			clear(a.cache)
		}
		a.cache[p.seq] = slices.Collect(parts(m.Data))
	}
	if p.at >= len(a.cache[p.seq]) {
		return nil, errGarbage
	}
	return a.cache[p.seq][p.at], nil
}

// Run fetches a result. See runner.Executor.
func (a *attached) Run(ctx context.Context, at task.Attempt) *task.Result {
	a.mu.Lock()
	f := a.found[at.Task.ID]
	a.mu.Unlock()
	fl := &flight{attempt: at}
	for i := range f.parts {
		for _, p := range f.parts[i] {
			msg, err := a.get(p.place)
			if err == nil {
				var c *Chunk
				if c, err = DecodeChunk(msg); err == nil {
					a.x.chunk(fl, c, false)
				}
			}
			if err != nil || ctx.Err() != nil {
				fl.out.close(true)
				return outcome(at, task.Cancelled, err, false)
			}
		}
	}
	fin := f.end
	var r *task.Result
	switch fin.Outcome {
	case task.Lost:
		r = outcome(at, task.Lost, errors.New("its workers were lost, one after the other"), false)
	case task.Cancelled, task.NotRun:
		r = outcome(at, task.Cancelled, errors.New("its worker was told to end it"), false)
		r.Final = true
	default:
		r = a.x.result(ctx, fl, end{final: fin})
		f.end, f.parts = nil, [2][]part{} // which take memory
	}
	r.Host, r.Argv, r.Start, r.End = string(fin.Host), fin.Argv, f.at.Add(-time.Duration(fin.Duration)), f.at
	return r
}

// Tasks returns how many tasks the run has.
func (a *attached) Tasks() uint64 { return a.run.Tasks }

// Forget removes the run from the engine: all its results were shown.
func (a *attached) Forget() error {
	return a.x.s.forget(context.Background(), a.run)
}

// Close closes the connection.
func (a *attached) Close() error {
	a.cons.Stop()
	_ = a.gone.Stop()
	a.x.s.close()
	a.fail(io.EOF)
	return nil
}
