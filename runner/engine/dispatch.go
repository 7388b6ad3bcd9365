package engine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/task"
	"crew/runner/wiring"
)

const (
	dispatchAgain = 10 * time.Second    // the pause before the process of a run is started again
	handingMost   = 30 * time.Second    // how long whoever hands a run over may be silent
	oldEvery      = 10 * time.Second    // how often to look for runs that nobody wants
	keptFor       = 30 * 24 * time.Hour // how long results wait for somebody to fetch them, and commands that are signed are good
	reportEvery   = 2500 * time.Millisecond
	mostResults   = 1 << 30 // bytes of outputs, unless the user says else
	mostStored    = 1 << 30 // and of tasks
	mostRuns      = 10_000
	mostProcesses = 64 // of runs; others wait

	goneSuffix = ".gone" // of the directory of a run that is removed
)

// dispatcher has the runs that were handed over: it stores their tasks, keeps a process for each that
// submits them, and shows their results. There is one, in the hub's process.
type dispatcher struct {
	s       *session
	connect func() (net.Conn, error) // to the server
	dir     string                   // of the runs, each in a directory of its name
	most    int64                    // bytes of outputs
	told    *once

	places chan struct{} // one for each process of a run

	mu   sync.Mutex
	runs map[string]*ledger
	wg   sync.WaitGroup
	ctx  context.Context // until the hub ends
	end  context.CancelFunc
}

// newDispatcher returns a dispatcher, which has a connection.
func newDispatcher(s *session, connect func() (net.Conn, error), dir string, most int64, notice func(string)) (*dispatcher, error) {
	d := &dispatcher{s: s, connect: connect, dir: dir, most: cmp.Or(most, mostResults), told: &once{notice: notice}, runs: map[string]*ledger{}, places: make(chan struct{}, mostProcesses)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.load()
	_, err := d.s.obey(dispatchSubject, d.obey)
	if err == nil {
		_, err = d.s.nc.Subscribe(askSubject, func(*nats.Msg) { go d.enrol() })
	}
	return d, err
}

// load finds the runs that were handed over to earlier hubs.
func (d *dispatcher) load() {
	list, _ := os.ReadDir(d.dir)
	for _, e := range list {
		dir := runDir(filepath.Join(d.dir, e.Name()))
		if strings.HasSuffix(e.Name(), goneSuffix) {
			_ = os.RemoveAll(string(dir))
			continue
		}
		record, err := dir.load()
		if err != nil {
			d.told.say(fmt.Sprintf("a run that was handed over is left alone in %s: %v", dir, err))
			continue
		}
		if record.State == runHanding { // whoever hands it over begins anew
			_ = os.RemoveAll(string(dir))
			continue
		}
		l := d.ledger(record)
		l.sizes[tasksFile], _ = dir.length(tasksFile)
		if record.State == runDone { // or else its process tells
			l.sizes[resultsFile], _ = dir.length(resultsFile)
			l.output = l.sizes[resultsFile]
		}
		d.runs[record.Run] = l
		d.submits(l)
	}
}

// serve keeps the processes of runs until ctx is done. The next hub goes on with them.
func (d *dispatcher) serve(ctx context.Context) error {
	defer d.wg.Wait()
	defer d.end()
	for tick := time.NewTicker(oldEvery); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-d.s.refused:
			return d.s.why
		case <-tick.C:
			for _, l := range d.all() {
				l.mu.Lock()
				since := time.Since(l.heard)
				old := l.record.State == runHanding && since > handingMost || l.record.State == runDone && since > keptFor
				l.mu.Unlock()
				if old { // who stored its tasks was killed, or nobody wants the results
					_ = d.forget(l)
				}
			}
		}
	}
}

func (d *dispatcher) all() (list []*ledger) {
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
	output := d.most
	for _, l := range d.all() {
		l.mu.Lock()
		tasks -= l.sizes[tasksFile]
		output -= l.output
		l.mu.Unlock()
	}
	return tasks < 0 || output < 0
}

// find returns a run.
func (d *dispatcher) find(run string, a *Answer) (*ledger, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.runs[run]
	if a.None = l == nil; a.None {
		return nil, fmt.Errorf("%w %s", errNoRun, task.Printable(run))
	}
	return l, nil
}

// report takes what the process of a run tells.
func (d *dispatcher) report(o *Order, a *Answer) error {
	l, err := d.find(o.Run, a)
	if err == nil && o.Report == nil {
		err = errGarbage
	}
	if err == nil {
		err = l.report(o.Report)
		a.Full = d.full(math.MaxInt64)
	}
	return err
}

// obey takes what submitters have to do with runs that are handed over.
func (d *dispatcher) obey(o *Order, a *Answer) error {
	if o.Op == "" { // they ask whether a hub is there
		return nil
	}
	if o.Op == opStore {
		return d.take(o, a)
	}
	l, err := d.find(o.Run, a)
	if err != nil {
		return err
	}
	switch o.Op {
	case opRead:
		l.mu.Lock()
		a.Done, a.Over, a.Notice = l.record.State == runDone, l.record.Over, l.record.Notice // before the file is read to its end
		l.mu.Unlock()
		a.Data, err = l.read(o.File, o.At)
		return err
	case opTalk:
		if l.running() {
			return errors.New("it runs")
		}
		return talk(&l.visitors, o, a)
	case opForget:
		return d.forget(l)
	}
	return o.unknown()
}

// take takes a run, and fetches its tasks. Whoever hands it over asks again until they are there.
func (d *dispatcher) take(o *Order, a *Answer) error {
	if o.Handed == nil || !o.Handed.valid() || o.Handed.Version != Version || o.Tasks == nil || o.Tasks.Size < 0 || userToken(o.Owner) != o.Owner {
		return errGarbage
	}
	l, err := d.begin(o)
	if err != nil {
		a.None = err != errFull
		return err
	}
	select {
	case <-l.fetched:
	case <-time.After(time.Second):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.Wait, a.None = l.record.State == runHanding, l.failed != nil
	l.heard = time.Now()
	return l.failed
}

// begin begins to fetch the tasks of a run, unless that has begun.
func (d *dispatcher) begin(o *Order) (*ledger, error) {
	full := o.Tasks.Size > mostStored || d.full(mostStored-o.Tasks.Size)
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.runs[o.Handed.Run]; l != nil {
		return l, nil
	}
	if full || len(d.runs) >= mostRuns {
		return nil, errFull
	}
	l := d.ledger(*o.Handed)
	l.record.State, l.record.User, l.record.Over, l.record.Done, l.record.Failed = runHanding, d.s.user, nil, 0, 0
	l.sizes[tasksFile] = o.Tasks.Size
	err := os.Mkdir(string(l.runDir), 0o700)
	if err != nil {
		return nil, err
	}
	if err = l.save(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(string(l.runDir)))
	}
	d.runs[l.record.Run] = l
	d.wg.Go(func() {
		defer close(l.fetched)
		if err := l.fetch(o); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.failed = err
		}
	})
	return l, nil
}

// fetch has the run begin once its tasks are here.
func (l *ledger) fetch(o *Order) error {
	_, err := l.write(tasksFile, 0, func(w io.Writer) error { return l.d.s.blobs.Pull(l.ctx, o.Owner, *o.Tasks, 0, w) })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return l.ctx.Err()
	}
	l.record.State = runRunning
	if err = l.save(); err == nil {
		l.d.submits(l)
	}
	return err
}

// forget ends a run, and removes what there is of it.
func (d *dispatcher) forget(l *ledger) error {
	l.mu.Lock()
	l.giveUp()
	l.record.State = runDone
	l.mu.Unlock()
	l.active.Wait()
	l.mu.Lock()
	run, gone := l.record.Enrolment, string(l.runDir)+goneSuffix
	err := os.Rename(string(l.runDir), gone) // as a whole
	if err == nil {
		err = os.RemoveAll(gone)
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.runs, run.Run)
	d.mu.Unlock()
	return d.s.over(&run)
}

// submits keeps a process that submits a run, until that is over.
func (d *dispatcher) submits(l *ledger) {
	l.active.Add(1)
	d.wg.Go(func() {
		defer l.active.Done()
		for l.running() && l.ctx.Err() == nil {
			select {
			case d.places <- struct{}{}:
			case <-l.ctx.Done():
				return
			}
			status, err := l.submit()
			<-d.places
			if err != nil && l.ctx.Err() == nil {
				l.told.say(err.Error())
			}
			if status == statusNever {
				l.mu.Lock()
				l.record.State = runDone
				_ = l.save()
				l.mu.Unlock()
			}
			if l.running() {
				pause(l.ctx, dispatchAgain)
			}
		}
	})
}

// statusNever is the exit status of the process of a run that can never be submitted.
const statusNever = 64

// submit has a process submit the run, and returns its exit status. Its standard input and output are its
// connection to the hub, with which it ends.
func (l *ledger) submit() (status int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(l.ctx, path, "--protocol", strconv.Itoa(wiring.EngineProtocol), wiring.SubmitVerb, string(l.runDir))
	cmd.Dir = string(l.runDir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return 0, err
	}
	conn, err := l.d.connect()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err = cmd.Start(); err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	all.Go(func() {
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			l.told.say(task.Printable(strings.TrimPrefix(lines.Text(), "crew: ")))
		}
		_, _ = io.Copy(io.Discard, errs) // behind a line that is too long
	})
	go func() {
		_, _ = io.Copy(in, conn)
		in.Close()
	}()
	_, _ = io.Copy(conn, out)
	all.Wait()
	if err = cmd.Wait(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil // it has said why
}

func (l *ledger) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.State == runRunning
}

// enrol tells of all runs.
func (d *dispatcher) enrol() {
	for _, l := range d.all() {
		l.mu.Lock()
		record := l.record.Enrolment
		stocked := *record.Stocked // which changes
		l.mu.Unlock()
		record.Stocked = &stocked
		_ = d.s.tell(enrolSubject(record.User, record.Run), record) // whoever asks asks again
	}
}
