package engine

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/credentials"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
)

// worker brings the attempts of other runs into the run of crew worker. It is the run's Source, admits
// each attempt as a task, wraps the run's executor to publish the results, and maintains the lease
// without which no attempt may run.
//
// maintainLease runs in the goroutine that calls Next. The other methods are called by the run, or by
// the goroutines of the connection's subscriptions.
type worker struct {
	// configuration

	*wiring.Call
	host   string
	mark   string           // mark of the host; "" without --ssh
	digest [32]byte         // digest of the command
	values bool             // there is a command, which takes values
	text   string           // the command for people
	offers string           // in the form of Presence.Offers
	trust  credentials.Keys // nil if commands are not allowed, or all come from the run that has started this worker

	// open resources

	s        *session
	out      *outbox.Outbox
	local    wiring.Executor
	seats    Seats
	files    *travel.Worker
	hostLock *os.File      // nil if the lock was not obtained, and without --ssh
	done     chan struct{} // closed when the run is over
	renewNow chan struct{} // asks renewLoop to renew the lease now

	// state

	cluster     bool          // the server is one of a cluster; used by endSilentRuns only
	announceSem chan struct{} // held by sending while the worker announces itself
	retired     bool          // announceGone was called; under announceSem

	mu          sync.Mutex // may be held when the run's lock is taken, never the other way round
	heldChanged sync.Cond  // an attempt was removed from held, or reported
	lease       *lease     // nil while the worker has none
	previous    string     // as Presence.After, once no task of an earlier lease is left
	state       string     // latest Presence.State
	held        map[ID]*heldAttempt
	lastTask    uint64                  // number of the latest task
	tasks       map[uint64]*heldAttempt // by number in this worker's run, also under earlier leases
	runs        map[string]*runState
	seen        tokenSet
}

// Work returns a worker that is connected to the hub.
func Work(work *wiring.Call) (wiring.Worker, error) {
	w := newWorker(work)
	var err error
	if mark, ok := strings.CutPrefix(work.Engine.URL, stdioURL); ok {
		w.mark = mark
	}
	if !work.Engine.Commands || w.mark != "" {
		w.seen.max = maxSeen
	} else if w.trust, err = credentials.LoadKeys(work.Engine.Trust); err != nil {
		return nil, err
	}
	if w.s, err = w.connect(); err != nil {
		return nil, err
	}
	if err = w.s.explain(w.subscribe()); err != nil {
		w.s.close()
		return nil, err
	}
	return w, nil
}

func newWorker(work *wiring.Call) *worker {
	w := &worker{
		Call: work, host: hostName(work.Control.Name), values: len(work.Words()) > 0,
		done: make(chan struct{}), renewNow: make(chan struct{}, 1), announceSem: make(chan struct{}, 1),
		state: ready,
		held:  map[ID]*heldAttempt{}, tasks: map[uint64]*heldAttempt{}, runs: map[string]*runState{},
	}
	for _, c := range work.Queue.Caps {
		w.offers += fmt.Sprintf(",%s:%d", c.Name, len(c.Units))
	}
	w.offers = strings.TrimPrefix(w.offers, ",")
	w.heldChanged.L = &w.mu
	w.seats.Window = max(1, work.Coproc.Window)
	if w.values {
		w.digest, w.text = digest(work.Options)
	}
	return w
}

// subscribe opens what the worker needs, and subscribes to heartbeats and requests to announce itself.
func (w *worker) subscribe() (err error) {
	if w.mark != "" { // without the lock, the submitter waits until the lease of the previous worker runs out
		if w.hostLock = lockHost(w.mark, min(w.Engine.TTL, lockWait)); w.hostLock != nil {
			w.previous = w.s.user
		}
	}
	w.files = travel.NewWorker(w.s.blobs, w.Store, w.Pool.Workdir)
	w.out = outbox.New(w.s.requester)
	if _, err = w.s.nc.Subscribe(heartbeatSubject(w.Engine.Queue, "*"), w.receiveHeartbeat); err == nil {
		_, err = w.s.nc.Subscribe(askSubject, func(*nats.Msg) { w.renewSoon() })
	}
	return err
}

// connectRetry is the pause before the next try to connect to a server that is not up yet.
const connectRetry = time.Second

// connect waits for the hub and connects to it, or connects to the run that has started this worker.
func (w *worker) connect() (*session, error) {
	if w.mark != "" {
		return dial("", w.Notice, nats.UserInfo(w.mark, ""), dialStdio(w.Engine.TTL, endNow))
	}
	for notices := (&notifier{notice: w.Notice}); ; {
		s, err := connect(w.Engine.URL, w.Notice)
		if !errors.Is(err, errNoServer) && !errors.Is(err, errSilent) {
			return s, err
		}
		notices.notify(err.Error() + "; trying again")
		time.Sleep(connectRetry)
	}
}

// hostName returns name, or this machine's name if that is empty, as a part of subjects.
func hostName(name string) string {
	name, _, _ = strings.Cut(cmp.Or(name, task.ThisHost()), ".")
	return strings.Map(func(r rune) rune {
		if outOfName(r) {
			return '-'
		}
		return r
	}, name)
}

// newID returns a new ID for a worker of the session's user on a host.
func (s *session) newID(host string) string {
	return s.user + "." + host + "-" + strings.ToLower(rand.Text()[:10])
}

// Next maintains the lease until the run is over: tasks come through Add instead. See runner.Source.
func (w *worker) Next(func() uint64) (*task.Task, error) {
	if w.Do(task.Command{Op: task.Add}).Err == nil { // from now on the run may be idle
		w.maintainLease()
	}
	select {
	case <-w.done:
		return nil, io.EOF
	case <-w.s.refused:
		return nil, w.s.refusedErr
	}
}

// Executor returns an executor that runs attempts on local and publishes their results.
func (w *worker) Executor(local wiring.Executor) wiring.Executor {
	w.local = local
	if h, ok := local.(interface{ HoldOpen(fd int) }); ok && w.hostLock != nil {
		h.HoldOpen(int(w.hostLock.Fd()))
	}
	if l, ok := local.(interface {
		Dismiss(slot int) (ended <-chan struct{})
	}); ok {
		w.seats.Dismiss = l.Dismiss
	}
	return &publisher{local, w}
}

// Consume handles tasks that ended without an attempt, and announces changes that submitters should
// know of soon. See runner.Sink.
func (w *worker) Consume(events []task.Event) error {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Finished:
			w.taskFinished(e)
		case task.Blocked:
			if e.Blocking == nil || e.Blocking.By == task.ByPause {
				w.renewSoon()
			}
		case task.Draining, task.Stopping, task.Resized:
			w.renewSoon()
		}
	}
	return nil
}

// Close returns once submitters have all results, or the lease is lost. It then announces that the
// worker has ended.
func (w *worker) Close(task.Stats) error {
	w.renewSoon() // it is draining
	w.out.Flush()
	w.mu.Lock()
	for w.s.blobs.Count() > 0 { // submitters are still fetching them
		w.heldChanged.Wait()
	}
	w.mu.Unlock()
	w.announceGone()
	return nil
}

// close closes the connection. The run must be over.
func (w *worker) close() {
	w.files.CleanUp("")
	close(w.done)
	w.s.close()
}

func (w *worker) renewSoon() { nudge(w.renewNow) }

// nudge wakes the goroutine that receives from c or, if none does, makes its next receive return at
// once. c must have a buffer of one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var errNoCommands = errors.New("this worker runs no commands: start it with --allow-commands --trust FILE")

// Host returns the worker's host name.
func (w *worker) Host() string { return w.host }
