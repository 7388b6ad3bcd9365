package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/ssh"
	"crew/runner/front/wiring"
	"crew/runner/keep/trust"
)

const (
	restartWait     = 10 * time.Second    // the pause before the process of a run is started again
	handOverTimeout = 30 * time.Second    // how long whoever hands a run over may be silent
	keptFor         = 30 * 24 * time.Hour // how long results wait for somebody to fetch them, and commands that are signed are good
	reportEvery     = 2500 * time.Millisecond
	maxResults      = 1 << 30 // bytes of outputs, unless the user says else
	maxTasks        = 1 << 30 // and of tasks
	maxRuns         = 10_000
	maxProcesses    = 64 // of runs; others wait
)

// dispatcher has the runs that were handed over: it stores their tasks, keeps a process for each that
// submits them, and shows their results. There is one, in the hub's process.
type dispatcher struct {
	s         *session
	connect   func() (net.Conn, error) // to the server
	dir       string                   // of the runs, each in a directory of its name
	maxOutput int64                    // bytes of outputs
	notices   *notifier

	processSem chan struct{} // one for each process of a run

	mu          sync.Mutex
	runs        map[string]*hubRun
	requestLeft chan struct{} // closed, and replaced, when a request was left
	lastRequest uint64        // the number of the latest one, which is its epoch
	wg          sync.WaitGroup
	ctx         context.Context // until the hub ends
	cancel      context.CancelFunc
}

// newDispatcher returns a dispatcher, which has a connection. It goes on until ctx is done, or serve returns.
func newDispatcher(ctx context.Context, s *session, connect func() (net.Conn, error), dir string, most int64, notice func(string)) (*dispatcher, error) {
	d := &dispatcher{s: s, connect: connect, dir: dir, maxOutput: cmp.Or(most, maxResults), notices: &notifier{notice: notice}, runs: map[string]*hubRun{}, requestLeft: make(chan struct{}), processSem: make(chan struct{}, maxProcesses)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d.ctx, d.cancel = context.WithCancel(ctx)
	d.load()
	_, err := d.s.serveOrders(dispatchSubject("*"), d.carryOutForUser)
	if err == nil {
		_, err = d.s.nc.Subscribe(askSubject, func(*nats.Msg) { go d.announce() })
	}
	return d, err
}

// load finds the runs that were handed over to earlier hubs. A directory without a record is one of which
// the tasks had not all come, or that was being removed.
func (d *dispatcher) load() {
	list, _ := os.ReadDir(d.dir)
	for _, e := range list {
		dir := runDir(filepath.Join(d.dir, e.Name()))
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == takenExt {
			time.AfterFunc(takenFor-time.Since(info.ModTime()), func() { _ = os.Remove(string(dir)) })
			continue
		}
		record, err := dir.load()
		switch {
		case errors.Is(err, fs.ErrNotExist), d.isTaken(e.Name()):
			_ = os.RemoveAll(string(dir))
		case err != nil:
			d.notices.notify(fmt.Sprintf("a run that was handed over is left alone in %s: %v", dir, err))
		default:
			l := d.newRun(record)
			l.tasks = dir.length(tasksFile)
			if record.For != "" {
				d.lastRequest = max(d.lastRequest, record.Epoch)
			}
			if record.State == runDone { // or else its process tells
				l.latest.Results = dir.length(resultsFile)
				l.latest.Size = l.latest.Results
				l.expiry.Reset(keptFor)
			}
			d.superviseLocked(l, nil)
		}
	}
}

// serve returns when the dispatcher has ended. The next hub goes on with the runs.
func (d *dispatcher) serve() error {
	defer d.wg.Wait()
	defer d.cancel()
	select {
	case <-d.ctx.Done():
		return nil
	case <-d.s.refused:
		return d.s.refusedErr
	}
}

func (d *dispatcher) all() (list []*hubRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.runs {
		list = append(list, l)
	}
	return list
}

var errFull = errors.New("the hub keeps as much as it may: crew engine attach and cancel make room")

// full reports whether the runs have more tasks than so many bytes, or more output than they may.
func (d *dispatcher) full(tasks int64) bool {
	output := d.maxOutput
	for _, l := range d.all() {
		l.mu.Lock()
		tasks -= l.tasks
		output -= l.latest.Size
		l.mu.Unlock()
	}
	return tasks < 0 || output < 0
}

// serves carries out what submitters order.
func (d *dispatcher) carryOutForUser(o *Order, a *Answer) error {
	switch o.Op {
	case "": // they ask whether a hub is there
		return nil
	case opReport:
		return o.unknown()
	}
	return d.carryOut(o, a)
}

// obey carries out what submitters, or the processes of runs, have to do with runs that are handed over.
func (d *dispatcher) carryOut(o *Order, a *Answer) (err error) {
	switch o.Op {
	case opStore:
		return d.acceptRun(o, a)
	case opNext:
		return d.nextRequest(o, a)
	}
	d.mu.Lock()
	l := d.runs[o.Run]
	d.mu.Unlock()
	if o.Op == opForget && l == nil && d.isTaken(o.Run) {
		return errTaken
	}
	if a.None = l == nil || o.Op != opReport && o.from != l.record.User && o.from != d.s.user; a.None { // the owner has all runs
		return fmt.Errorf("%w %s", errNoRun, task.Printable(o.Run))
	}
	switch o.Op {
	case opRead:
		l.mu.Lock()
		a.End, a.Notice = l.record.End, l.record.Notice // before the file is read to its end
		l.mu.Unlock()
		a.Data, err = l.read(o.File, o.At)
		return err
	case opTalk:
		if l.state() == runRunning {
			return errors.New("it runs")
		}
		return talk(&l.visitors, o, a)
	case opForget:
		return d.forget(l)
	case opReport:
		if o.Report == nil {
			return errGarbage
		}
		err = l.applyReport(o.Report)
		a.Full = d.full(math.MaxInt64)
		return err
	}
	return o.unknown()
}

// take takes a run, and fetches its tasks. Whoever hands it over asks again until they are there.
func (d *dispatcher) acceptRun(o *Order, a *Answer) error {
	if o.Record == nil || !o.Record.valid() || o.Record.Version != Version || o.Tasks == nil || o.Tasks.Size < 0 || o.Record.For != "" && o.Tasks.Size > maxRequest {
		return errGarbage
	}
	l, err := d.addRun(o)
	if err != nil {
		a.None = err != errFull
		return err
	} else if l == nil {
		return nil // it is here no more
	}
	select {
	case <-l.fetched:
	case <-time.After(time.Second):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Wait = l.record.State == runHanding; a.Wait {
		l.expiry.Reset(handOverTimeout)
	}
	a.None = l.fetchErr != nil
	return l.fetchErr
}

// begin begins to fetch the tasks of a run, unless that has begun. Without an error it returns nil for what a
// crew serve has taken since.
func (d *dispatcher) addRun(o *Order) (*hubRun, error) {
	full := o.Tasks.Size > maxTasks || d.full(maxTasks-o.Tasks.Size)
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.runs[o.Record.Run]; l != nil && l.record.User == o.from {
		return l, nil
	} else if l != nil {
		return nil, errGarbage
	} else if d.isTaken(o.Record.Run) {
		return nil, nil
	}
	if full || len(d.runs) >= maxRuns {
		return nil, errFull
	}
	if err := os.Mkdir(filepath.Join(d.dir, o.Record.Run), 0o700); err != nil {
		return nil, err
	}
	l := d.newRun(*o.Record)
	l.record.State, l.record.User, l.record.End, l.record.Done, l.record.Failed = runHanding, o.from, nil, 0, 0
	if l.tasks = o.Tasks.Size; l.record.For != "" {
		d.lastRequest++
		l.record.Epoch = d.lastRequest
	}
	l.expiry.Reset(handOverTimeout)
	d.superviseLocked(l, o)
	return l, nil
}

// keep has a run be submitted until it is over or given up, once its tasks have come, if o hands them over.
func (d *dispatcher) superviseLocked(l *hubRun, o *Order) {
	d.runs[l.record.Run] = l
	d.wg.Go(func() {
		defer close(l.stopped)
		if o != nil {
			l.fetch(o)
		}
		close(l.fetched)
		if l.record.For != "" {
			d.mu.Lock()
			close(d.requestLeft)
			d.requestLeft = make(chan struct{})
			d.mu.Unlock()
		}
		for l.state() == runRunning && l.ctx.Err() == nil {
			select {
			case d.processSem <- struct{}{}:
			case <-l.ctx.Done():
				return
			}
			status, err := l.runProcess()
			<-d.processSem
			if err != nil && l.ctx.Err() == nil {
				l.notices.notify(err.Error())
			}
			if status == statusHopeless {
				l.fail()
			}
			if l.state() == runRunning {
				sleep(l.ctx, restartWait)
			}
		}
	})
}

// fetch has the run begin once its tasks are here.
func (l *hubRun) fetch(o *Order) {
	f, err := l.file(tasksFile)
	if err == nil {
		defer f.Close()
		err = cmp.Or(l.d.s.blobs.Pull(l.ctx, o.from, *o.Tasks, 0, f), f.Sync())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expiry.Stop(); err == nil {
		if l.record.State = runRunning; l.record.For != "" {
			l.record.State, l.record.End = runLeft, &runEnd{} // its file is whole
		}
		err = l.saveLocked()
	}
	if l.fetchErr = err; err != nil {
		l.record.State = runHanding
		l.expiry.Reset(handOverTimeout)
	}
}

// forget ends a run, and removes what there is of it.
func (d *dispatcher) forget(l *hubRun) error {
	l.giveUp()
	<-l.stopped
	l.expiry.Stop() // which would keep it in memory
	if l.state() == runLeft {
		mark := d.takenPath(l.record.Run)
		_ = trust.WritePrivate(mark, nil) // or else it may come again, also after a power cut
		time.AfterFunc(takenFor, func() { _ = os.Remove(mark) })
	}
	_ = os.Remove(filepath.Join(string(l.runDir), recordFile)) // so the next hub knows what became of it
	if err := os.RemoveAll(string(l.runDir)); err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.runs, l.record.Run)
	d.mu.Unlock()
	if l.record.For != "" {
		return nil
	}
	return d.s.heartbeat(heartbeatSubject(l.record.Queue, l.record.User), Heartbeat{Run: l.record.Run, Epoch: l.record.Epoch, Over: true}) // workers end what runs
}

// statusNever is the exit status of the process of a run that can never be submitted.
const statusHopeless = 64

// submit has a process submit the run, and returns its exit status. Its standard input and output are its
// connection to the hub, with which it ends.
func (l *hubRun) runProcess() (status int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	conn, err := l.d.connect()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	cmd := exec.CommandContext(l.ctx, path, "--protocol", strconv.Itoa(wiring.EngineProtocol), wiring.SubmitVerb, string(l.runDir))
	cmd.Dir, cmd.Stdout, cmd.Stderr = string(l.runDir), conn, ssh.Lines(l.notices.notify)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(in, conn)
		in.Close()
	}()
	if err = cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil // it has said why
}

// state returns the state of the run.
func (l *hubRun) state() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.State
}

// enrol tells of all runs.
func (d *dispatcher) announce() {
	left := 0
	for _, l := range d.all() {
		if l.record.For != "" {
			left++
		}
		if left > maxAnnounced {
			continue
		}
		l.mu.Lock()
		_ = d.s.publishJSON(runInfoSubject(l.record.User, l.record.Run), &l.record.RunInfo) // whoever asks asks again
		l.mu.Unlock()
	}
}
