package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/ssh"
	"crew/runner/far/travel"
	"crew/runner/front/wiring"
)

const (
	restartWait     = 10 * time.Second        // pause before the process of a run is restarted
	handOverTimeout = 30 * time.Second        // how long the client that hands a run over may be silent
	keptFor         = 30 * 24 * time.Hour     // how long results are kept for crew engine attach, and lasting signatures hold
	saveEvery       = 2500 * time.Millisecond // how often the process of a run records its progress
	maxResults      = 1 << 30                 // bytes of output, unless the user sets another limit
	maxTasks        = 1 << 30                 // bytes of records and tasks
	maxRuns         = 10_000
	maxProcesses    = 64 // processes of runs of a user; the other runs wait
)

// dispatcher holds the detached runs: it stores their tasks, keeps a process for each that submits
// them, and serves their results. There is one, in the hub's process.
type dispatcher struct {
	s         *session
	connect   func() (net.Conn, error) // opens a connection to the server
	dir       string                   // holds a directory for each run, named by its ID
	maxOutput int64                    // most bytes of output
	notices   *notifier

	processSems sync.Map // by user, a chan struct{} that limits the processes of runs

	mu          sync.Mutex
	runs        map[string]*hubRun
	lastRequest uint64          // number of the latest request, which is its Epoch
	passing     map[string]bool // by doorSubject: passRequests runs
	wg          sync.WaitGroup
	ctx         context.Context // done once the hub ends
	cancel      context.CancelFunc
}

// newDispatcher returns a dispatcher that uses the connection s. Runs may have up to most bytes of
// output; 0 means maxResults. It runs until ctx is done or serve returns.
func newDispatcher(ctx context.Context, s *session, connect func() (net.Conn, error), dir string, most int64, notice func(string)) (*dispatcher, error) {
	d := &dispatcher{s: s, connect: connect, dir: dir, maxOutput: cmp.Or(most, maxResults), notices: &notifier{notice: notice}, runs: map[string]*hubRun{}, passing: map[string]bool{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d.ctx, d.cancel = context.WithCancel(ctx)
	d.load()
	_, err := d.s.serveOrders(dispatchSubject("*"), d.carryOut)
	if err == nil {
		_, err = d.s.nc.Subscribe(askSubject, func(*nats.Msg) { go d.announce() })
	}
	return d, err
}

// load loads the runs that earlier hubs have accepted. A directory without a record belongs to a run
// whose tasks had not all arrived, or that was being removed.
func (d *dispatcher) load() {
	d.mu.Lock() // the oldest request is known once all are loaded
	defer d.mu.Unlock()
	list, _ := os.ReadDir(d.dir)
	for _, e := range list {
		dir := runDir(filepath.Join(d.dir, e.Name()))
		record, err := dir.load()
		switch {
		case errors.Is(err, fs.ErrNotExist), !e.IsDir():
			_ = os.RemoveAll(string(dir))
		case err != nil:
			d.notices.notify(fmt.Sprintf("a detached run in %s is skipped: %v", dir, err))
		default:
			h := d.newRun(record)
			h.tasks = uint64(dir.length(recordFile) + dir.length(tasksFile))
			if record.For != "" {
				d.lastRequest = max(d.lastRequest, record.Epoch)
			}
			if info, err := e.Info(); err == nil && record.State == runDone { // the record was written last
				h.expiry.Reset(time.Until(info.ModTime().Add(keptFor)))
			}
			d.superviseLocked(h, nil)
		}
	}
}

// serve blocks until ctx of newDispatcher is done or the server refuses the session, and then until all
// processes of runs have ended. The next hub continues the runs.
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

// all returns all runs.
func (d *dispatcher) all() []*hubRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.runs))
}

var errFull = errors.New("the hub has no room for more: crew engine attach or cancel makes room")

// carryOut carries out an order of a user about detached runs.
func (d *dispatcher) carryOut(o *Order, a *Answer) (err error) {
	if o.Op == opStore {
		return d.acceptRun(o, a)
	}
	d.mu.Lock()
	h := d.runs[o.Run]
	d.mu.Unlock()
	if h != nil && o.from != h.record.User && o.from != d.s.user { // the owner may access all runs
		h = nil
	}
	if a.None = h == nil; a.None {
		return fmt.Errorf("%w %s", errNoRun, task.Printable(o.Run))
	}
	switch o.Op {
	case opRead:
		h.mu.Lock()
		a.End, a.Notice = h.record.End, h.record.Notice // read before the file, so a run that has ended has all its results there
		h.mu.Unlock()
		a.Data, err = h.read(o.File, o.At)
		return err
	case opTalk:
		return talk(&h.remoteClients, o, a)
	case opForget:
		return d.forget(h)
	}
	return o.unknown()
}

// acceptRun accepts a run and fetches its tasks. The client repeats the order until all tasks have
// arrived.
func (d *dispatcher) acceptRun(o *Order, a *Answer) error {
	if o.Record == nil || !o.Record.valid() || o.Record.Version != Version || o.Tasks == nil || o.Tasks.Size < 0 || o.Record.For != "" && o.Tasks.Size > maxRequest {
		return errGarbage
	}
	h, err := d.addRun(o)
	if err != nil {
		a.None = err != errFull
		return err
	}
	select {
	case <-h.fetched:
	case <-time.After(time.Second):
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.Wait = h.record.State == runHanding && h.fetchErr == nil; a.Wait {
		h.expiry.Reset(handOverTimeout)
	}
	a.None = h.fetchErr != nil
	return h.fetchErr
}

// addRun adds a run and starts to fetch its tasks, unless the run is there already.
func (d *dispatcher) addRun(o *Order) (*hubRun, error) {
	text, _ := json.Marshal(o.Record)
	size := uint64(len(text)) + uint64(o.Tasks.Size)
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.runs[o.Record.Run]; h != nil && h.record.User == o.from {
		return h, nil
	} else if h != nil {
		return nil, errGarbage
	}
	tasks := size
	for _, h := range d.runs {
		tasks += h.tasks
	}
	if tasks > maxTasks || len(d.runs) >= maxRuns || o.Record.For == "" && outputBytes(d.dir) > d.maxOutput {
		return nil, errFull
	}
	if err := os.Mkdir(filepath.Join(d.dir, o.Record.Run), 0o700); err != nil {
		return nil, err
	}
	h := d.newRun(*o.Record)
	h.record.State, h.record.User, h.record.End, h.record.Done, h.record.Failed = runHanding, o.from, nil, 0, 0
	if h.tasks = size; h.record.For != "" {
		d.lastRequest++
		h.record.Epoch = d.lastRequest
	}
	h.expiry.Reset(handOverTimeout)
	d.superviseLocked(h, o)
	return h, nil
}

// superviseLocked starts a goroutine that fetches the tasks if o brings them, and then runs and
// restarts the submitting process until the run is over or given up. The caller must hold mu.
func (d *dispatcher) superviseLocked(h *hubRun, o *Order) {
	d.runs[h.record.Run] = h
	d.wg.Go(func() {
		defer close(h.stopped)
		if o != nil {
			h.fetch(o)
		}
		close(h.fetched)
		if h.state() == runLeft {
			d.startPassing(h.record.User, h.record.For)
		}
		of, _ := d.processSems.LoadOrStore(h.record.User, make(chan struct{}, maxProcesses))
		sem := of.(chan struct{})
		for h.state() == runRunning && h.ctx.Err() == nil {
			select {
			case sem <- struct{}{}:
			case <-h.ctx.Done():
				return
			}
			h.waits.Store(false)
			status, err := h.runProcess()
			h.waits.Store(true)
			<-sem
			if err != nil && h.ctx.Err() == nil {
				h.notices.notify(err.Error())
			}
			if !h.checkOver(status) {
				sleep(h.ctx, restartWait)
			}
		}
	})
}

// fetch fetches the tasks. The run can start once they are on disk. If that fails, the run is removed
// after handOverTimeout, and until then fetchErr tells the client why.
func (h *hubRun) fetch(o *Order) {
	f, err := h.file(tasksFile)
	if err == nil {
		defer f.Close()
		err = cmp.Or(h.d.s.blobs.Pull(h.ctx, o.from, *o.Tasks, 0, f), f.Sync())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.expiry.Stop(); err == nil {
		if h.record.State = runRunning; h.record.For != "" {
			h.record.State = runLeft
		}
		err = h.save(&h.record)
	}
	if h.fetchErr = err; err != nil {
		h.record.State = runHanding
		if h.expiry.Reset(handOverTimeout); errors.Is(err, travel.ErrNone) {
			h.expiry.Reset(0) // the client has withdrawn it, or is gone
		}
	}
}

// forget ends a run and removes all its files.
func (d *dispatcher) forget(h *hubRun) error {
	h.giveUp()
	<-h.stopped
	h.expiry.Stop()                                            // it would keep the run in memory
	_ = os.Remove(filepath.Join(string(h.runDir), recordFile)) // first, so that the next hub does not load a run half removed
	if err := os.RemoveAll(string(h.runDir)); err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.runs, h.record.Run)
	d.mu.Unlock()
	if h.record.For != "" {
		return nil
	}
	return d.s.heartbeat(heartbeatSubject(h.record.Queue, h.record.User), Heartbeat{Run: h.record.Run, Epoch: h.record.Epoch, Over: true}) // workers end its attempts
}

// statusHopeless is the exit status of the process of a run that can never be submitted.
const statusHopeless = 64

// runProcess runs a process that submits the run, and returns its exit status. The standard input and
// output of the process are its connection to the hub, and it ends when that closes.
func (h *hubRun) runProcess() (status int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	conn, err := h.d.connect()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	cmd := exec.CommandContext(h.ctx, path, "--protocol", strconv.Itoa(wiring.EngineProtocol), wiring.SubmitVerb, string(h.runDir), strconv.FormatInt(h.d.maxOutput, 10))
	cmd.Dir, cmd.Stdout, cmd.Stderr = string(h.runDir), conn, ssh.LineWriter(h.notices.notify)
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
	return cmd.ProcessState.ExitCode(), nil // the process has reported its errors itself
}

// state returns the state of the run.
func (h *hubRun) state() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.record.State
}

// announce publishes the RunInfo of every run, and of up to maxAnnounced requests to add tasks.
func (d *dispatcher) announce() {
	left := 0
	for _, h := range d.all() {
		if h.record.For != "" {
			if left++; left > maxAnnounced {
				continue
			}
		}
		h.mu.Lock()
		info := h.record.RunInfo
		if info.State == runRunning {
			h.readProgressLocked()
			if info = h.record.RunInfo; h.waits.Load() {
				info.State = runWaiting
			}
		}
		h.mu.Unlock()
		_ = d.s.publishJSON(runInfoSubject(info.User, info.Run), &info) // a client asks again
	}
}
