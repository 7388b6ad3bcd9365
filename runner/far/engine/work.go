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

// crewWorker brings the attempts of other runs into the run of crew worker: it is the
// run's Source, admits each attempt as a task, has its executor publish what comes of
// it, and keeps the lease without which it must run nothing.
//
// It has these goroutines: keep, which renews the lease and ends the tasks if that fails,
// and those of the connection's subscriptions.
type worker struct {
	// configuration

	work   wiring.Work
	host   string
	mark   string           // of the host of --ssh; "" for none
	digest [32]byte         // of the template
	values bool             // there is a template
	text   string           // the template for people
	offers string           // as Presence has them
	trust  credentials.Keys // nil if every command is of the run that has started this worker

	// what is open

	s        *session
	out      *outbox.Outbox
	local    wiring.Executor
	seats    Seats
	files    *travel.Worker
	hostLock *hostLock     // nil without
	done     chan struct{} // closed when the run is over
	renewNow chan struct{} // the worker is to tell of itself now
	notices  *notifier

	droppedOnce, ignoredOnce sync.Once // something was, and that was said

	// state

	admitMu  sync.Mutex // held while tasks are numbered and admitted
	lastTask uint64     // number of the latest task

	bigSem      chan struct{} // holds one for each attempt that is too long for a message and comes
	announceSem chan struct{} // holds one while the worker tells of itself, which takes time
	retired     bool          // it has said that it has gone; under record

	mu          sync.Mutex
	heldChanged sync.Cond // an attempt was forgotten
	lease       *lease    // nil while there is none
	hadLease    bool      // there has been one
	state       string    // ready, paused, draining or gone
	held        map[ID]*heldAttempt
	tasks       map[uint64]*heldAttempt // by their numbers here; also those of earlier leases
	runs        map[string]*runState
	queues      map[RunSlot][]*heldAttempt // by slot of a run: its attempts that have not ended; the first is admitted
	seen        tokenSet
	needs       map[string][]task.Need // of attempts, which share them
}

// Work returns a worker. It is connected to the engine.
func Work(work wiring.Work) (wiring.Worker, error) {
	w := newWorker(work)
	var err error
	if mark, ok := strings.CutPrefix(work.URL, stdioURL); ok {
		w.mark = mark
	}
	if !work.Commands || w.mark != "" {
		w.seen.max = maxSeen
	} else if w.trust, err = credentials.LoadKeys(work.Trust); err != nil {
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

func newWorker(work wiring.Work) *worker {
	w := &worker{
		work: work, host: hostName(work.Name), values: len(work.Template.Words) > 0,
		done: make(chan struct{}), renewNow: make(chan struct{}, 1), announceSem: make(chan struct{}, 1), bigSem: make(chan struct{}, maxBig),
		notices: &notifier{notice: work.Notice}, state: ready,
		held: map[ID]*heldAttempt{}, tasks: map[uint64]*heldAttempt{}, runs: map[string]*runState{}, queues: map[RunSlot][]*heldAttempt{},
		needs: map[string][]task.Need{},
	}
	for _, c := range work.Offers {
		w.offers += fmt.Sprintf(",%s:%d", c.Name, len(c.Units))
	}
	w.offers = strings.TrimPrefix(w.offers, ",")
	w.heldChanged.L = &w.mu
	w.seats.Window = max(1, work.Window)
	if w.values {
		w.digest, w.text = digest(work.Template)
	}
	return w
}

// open begins to hear of runs.
func (w *worker) subscribe() (err error) {
	if w.mark != "" { // without a tenure the submitter waits for the end of the last worker's lease
		w.hostLock = acquireHostLock(w.mark, min(w.work.TTL, lockWait))
	}
	w.files = travel.NewWorker(w.s.blobs, w.work.Store, w.work.Workdir)
	w.out = outbox.New(w.s.asker, w.s.waits)
	if _, err = w.s.nc.Subscribe(heartbeatSubject(w.work.Queue, "*"), w.receiveHeartbeat); err == nil {
		_, err = w.s.nc.Subscribe(askSubject, func(*nats.Msg) { w.renewSoon() })
	}
	return err
}

// mostBig is how many attempts come at once that are too long for a message.
const maxBig = 16

// connectAgain is the pause before a worker tries again to reach a server that is not up yet.
const connectRetry = time.Second

// connect connects to the engine, for which it waits, or to the run that has started this worker.
func (w *worker) connect() (*session, error) {
	if w.mark != "" {
		return dial("", w.work.Notice, nats.UserInfo(w.mark, ""), dialStdio(w.work.TTL, endNow))
	}
	for {
		s, err := connect(w.work.URL, w.work.Notice)
		if !errors.Is(err, errNoServer) && !errors.Is(err, errSilent) {
			return s, err
		}
		w.notices.notify(err.Error() + "; trying again")
		time.Sleep(connectRetry)
	}
}

// hostName returns a name, or this machine's if it is empty, as a part of subjects.
func hostName(name string) string {
	if name == "" {
		name, _ = os.Hostname()
	}
	name, _, _ = strings.Cut(cmp.Or(name, "localhost"), ".")
	return strings.Map(func(r rune) rune {
		if outOfName(r) {
			return '-'
		}
		return r
	}, name)
}

// newID returns the ID of a worker of the session's user with a host's name.
func (s *session) newID(host string) string {
	return s.user + "." + host + "-" + strings.ToLower(rand.Text()[:10])
}

// Next takes tasks from the engine until the run is over.
func (w *worker) Next(func() uint64) (*task.Task, error) {
	if w.work.Do(task.Command{Op: task.Add}).Err == nil { // from now on it can be idle
		if err := w.join(); err != nil {
			return nil, fmt.Errorf("join the workers of the hub: %w", err)
		}
		w.work.Ready()
		w.maintainLease()
	}
	select {
	case <-w.done:
		return nil, io.EOF
	case <-w.s.refused:
		return nil, w.s.refusedErr
	}
}

// join has runs find the worker, unless it is refused something.
func (w *worker) join() error {
	err := w.renew()
	if err == nil {
		err = w.s.checkAllowed()
	}
	return w.s.explain(err)
}

// Executor returns an executor that publishes what comes of attempts that local runs.
func (w *worker) Executor(local wiring.Executor) wiring.Executor {
	w.local = local
	if h, ok := local.(interface{ Hold(fd int) }); ok && w.hostLock != nil {
		h.Hold(int(w.hostLock.file.Fd()))
	}
	if l, ok := local.(interface {
		Dismiss(slot int) (ended <-chan struct{})
	}); ok {
		w.seats.Dismiss = l.Dismiss
	}
	return &publisher{local, w}
}

// Consume looks at events for tasks that ended without an attempt, and for changes
// that submitters should know of soon.
func (w *worker) Consume(events []task.Event) error {
	for i := range events {
		switch e := &events[i]; e.Kind {
		case task.Finished:
			w.taskFinished(e)
		case task.Draining, task.Stopping:
			w.setState(draining)
		case task.Blocked:
			if e.Blocking == nil || e.Blocking.By == task.ByPause {
				w.renewSoon()
			}
		case task.Resized:
			w.renewSoon()
		}
	}
	return nil
}

// Close returns once submitters have all results, or the lease is lost, and says that
// the worker has gone.
func (w *worker) Close(task.Stats) error {
	w.setState(draining)
	w.out.Flush()
	w.mu.Lock()
	for w.s.blobs.Count() > 0 { // whoever needs them has still to get them
		w.heldChanged.Wait()
	}
	w.mu.Unlock()
	w.announceGone()
	return nil
}

// close closes the connection. The run is over.
func (w *worker) close() {
	w.files.End("")
	close(w.done)
	w.s.close()
}

func (w *worker) setState(state string) {
	w.mu.Lock()
	changed := w.state != state
	w.state = state
	w.mu.Unlock()
	if changed {
		w.renewSoon()
	}
}

func (w *worker) renewSoon() { nudge(w.renewNow) }

// nudge wakes the goroutine that waits for c, or has it not wait the next time.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var errNoCommands = errors.New("this worker runs no commands: start it with --allow-commands --trust FILE")

// tell says something that is not said again until something else was.
func (w *worker) noticef(format string, args ...any) { w.notices.notify(fmt.Sprintf(format, args...)) }

// after returns the ID of the worker before this one, which has ended; "" for none.
func (w *worker) previousWorker() string {
	if w.hostLock == nil {
		return ""
	}
	return w.hostLock.previous
}

// Host returns the name of the worker.
func (w *worker) Host() string { return w.host }
