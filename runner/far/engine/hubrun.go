package engine

import (
	"bufio"
	"cmp"
	"context"
	"crypto/aes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/trust"
	"crew/runner/steer/control"
)

// What the directory of a run holds that was handed over.
const (
	recordFile    = "run"       // handed
	tasksFile     = "tasks"     // Stored, each on a line
	resultsFile   = "results"   // Ended, each on a line, which the outputs follow; in input order
	cancelledFile = "cancelled" // task.Facts of tasks that were cancelled before they ran
	stateDir      = "state"     // of --state
)

// handed is the record of a run that was handed over, as JSON.
type runRecord struct {
	RunInfo
	Options RunOptions `json:"terms"`
	End     *runEnd    `json:"over,omitempty"` // nil while the run is not over
}

// over says how a run has ended.
type runEnd struct {
	Status int        `json:"status"`          // the exit status that it would have had at its owner's
	Early  task.Bytes `json:"early,omitempty"` // why it ended early, if it did
}

// report is what the process of a run tells the hub, as JSON.
type report struct {
	Results int64   `json:"results"` // how long their file is, as far as it is on disk
	Size    int64   `json:"size"`    // of all output that is kept
	Done    int64   `json:"done"`
	Failed  int64   `json:"failed"`
	Paused  bool    `json:"paused,omitempty"`
	End     *runEnd `json:"over,omitempty"`
}

// Stored is a task of a run that was handed over, as JSON.
type StoredTask struct {
	Spec json.RawMessage `json:"spec"` // as journal.EncodeTask has it

	// of the signature for its attempts, if they bring commands

	Expires time.Time `json:"expires,omitzero"`
	Signer  []byte    `json:"signer,omitempty"`
	Sig     []byte    `json:"sig,omitempty"`
}

// Ended is how a task of such a run has ended, as JSON; see task.ShowFrames.
type Ended struct {
	task.Facts
	Stdout int64 `json:"out"` // how long the outputs are
	Stderr int64 `json:"err"`
}

// readEnded reads how a task has ended, of which the outputs follow, and returns the length of the line.
func readEnded(from *bufio.Reader, e *Ended) (int, error) {
	*e = Ended{}
	n, err := readLine(from, e)
	if err == nil && (badFacts(&e.Facts) || e.Stdout < 0 || e.Stderr < 0) {
		err = errGarbage
	}
	return n, err
}

// runDir is the directory of a run that was handed over.
type runDir string

// file opens a file, to which what is written is appended.
func (d runDir) file(name string) (*os.File, error) {
	return trust.OpenOwn(filepath.Join(string(d), name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// length returns how long a file is, 0 if there is none.
func (d runDir) length(name string) int64 {
	info, err := os.Stat(filepath.Join(string(d), name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// load reads the record.
func (d runDir) load() (record runRecord, err error) {
	text, err := os.ReadFile(filepath.Join(string(d), recordFile))
	if err == nil {
		err = readJSON(text, &record)
	}
	if err == nil && record.Version != Version {
		err = &versionError{record.Version}
	}
	if err == nil && (record.Run != filepath.Base(string(d)) || !record.valid()) {
		err = errGarbage
	}
	return record, err
}

// valid reports whether a run can be like that.
func (r *runRecord) valid() bool {
	s := r.Progress
	if r.For != "" {
		return validName(r.Run) && s != nil && s.Tasks == 0
	}
	return validName(r.Run) && validName(r.Queue) && s != nil && len(r.Options.Secret) == aes.BlockSize && s.Tasks <= math.MaxInt64/100
}

// each calls f with the results that are on record, and where their outputs are. It returns how long
// all are: a crash may have left a part of one.
func (d runDir) each(f func(e *Ended, at int64)) (whole int64, err error) {
	file, err := d.file(resultsFile)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var e Ended
	for lines := bufio.NewReader(file); ; {
		n, err := readEnded(lines, &e)
		if err == nil {
			_, err = io.CopyN(io.Discard, lines, e.Stdout+e.Stderr)
		}
		if err != nil {
			return whole, nil
		}
		f(&e, whole+int64(n))
		whole += int64(n) + e.Stdout + e.Stderr
	}
}

// ended returns what is on record of tasks that have ended. See control.Sight.
func (d runDir) ended(ids ...uint64) map[uint64]task.Past {
	all := map[uint64]task.Past{}
	_, _ = d.each(func(e *Ended, at int64) {
		if slices.Contains(ids, e.Task) {
			all[e.Task] = task.Past{Facts: e.Facts, Kept: true, Outputs: [2]task.Live{d.output(at, e.Stdout), d.output(at+e.Stdout, e.Stderr)}}
		}
	})
	return all
}

// kept is a part of a file.
type fileSection struct {
	*io.SectionReader
	io.Closer
}

// output returns an output that is on record, or nil if it is empty or cannot be read.
func (d runDir) output(at, n int64) task.Live {
	f, err := d.file(resultsFile)
	if err != nil || n == 0 {
		f.Close()
		return nil
	}
	return fileSection{io.NewSectionReader(f, at, n), f}
}

// readLine reads a line of JSON into what to points to, and returns its length.
func readLine(r *bufio.Reader, to any) (int, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		switch text = append(text, part...); {
		case errors.Is(err, bufio.ErrBufferFull) && len(text) < maxTaskSize:
		case err != nil:
			return 0, err
		case readJSON(text, to) != nil:
			return 0, errGarbage
		default:
			return len(text), nil
		}
	}
}

// ledger is a run that was handed over, as the hub has it.
type hubRun struct {
	runDir
	d       *dispatcher
	notices *notifier

	fetched  chan struct{}    // closed once its tasks are here, or could not be fetched
	stopped  chan struct{}    // closed once nothing is done for the run any more
	visitors control.Visitors // once it is over
	expiry   *time.Timer      // until it is forgotten, for whoever hands it over is silent, or nobody fetches the results

	mu       sync.Mutex
	record   runRecord
	latest   report          // as its process has told
	tasks    int64           // bytes
	fetchErr error           // why its tasks could not be fetched
	ctx      context.Context // until the hub gives the run up
	giveUp   context.CancelFunc
}

func (d *dispatcher) newRun(record runRecord) *hubRun {
	here := newRunInfo("", "", "", identity{})
	record.Host, record.PID, record.Notice = here.Host, here.PID, ""
	l := &hubRun{d: d, record: record, runDir: runDir(filepath.Join(d.dir, record.Run)), fetched: make(chan struct{}), stopped: make(chan struct{})}
	l.notices = &notifier{notice: func(text string) {
		d.notices.notify("run " + task.Printable(cmp.Or(record.Name, record.Run)) + ": " + text)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.record.Notice = text
	}}
	l.ctx, l.giveUp = context.WithCancel(d.ctx)
	l.expiry = time.AfterFunc(math.MaxInt64, func() { _ = d.forget(l) })
	about := control.Hello{Name: record.Name, Command: task.Bytes(newMessageBuilder(&record.Options.Load).text)}
	over := control.Serve(control.Config{About: about, Do: l.answerEnded, Soon: control.Never, See: control.Sight{Ended: l.ended}})
	_ = over.Sink().Close(task.Stats{}) // it hears of no task any more
	l.visitors.Welcome = over.Welcome
	return l
}

// save has the record be that on disk. The caller holds mu.
func (l *hubRun) saveLocked() error {
	text, err := json.Marshal(&l.record)
	if err == nil {
		err = trust.WritePrivate(filepath.Join(string(l.runDir), recordFile), text)
	}
	return err
}

// report takes what the process of the run tells.
func (l *hubRun) applyReport(r *report) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record.State == runDone { // it comes late
		return nil
	}
	l.latest = *r
	changed := r.Paused != l.record.Paused || r.End != nil
	l.record.Done, l.record.Failed, l.record.Paused, l.record.End = r.Done, r.Failed, r.Paused, r.End
	if r.End != nil {
		l.record.State, l.record.Notice = runDone, ""
		l.expiry.Reset(keptFor)
	}
	if !changed {
		return nil
	}
	return l.saveLocked()
}

// never has the run be over, which cannot be submitted. Its process has said why.
func (l *hubRun) fail() {
	l.mu.Lock()
	r := l.latest
	r.End = &runEnd{1, task.Bytes(l.record.Notice)}
	l.mu.Unlock()
	_ = l.applyReport(&r)
}

// read returns what a file has at an offset, at most a piece of it, and nothing at its end.
func (l *hubRun) read(name string, at int64) ([]byte, error) {
	l.mu.Lock()
	n := min(map[string]int64{tasksFile: l.tasks, resultsFile: l.latest.Results}[name]-at, maxMessage)
	l.mu.Unlock()
	if n <= 0 || at < 0 {
		return nil, nil
	}
	f, err := l.file(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	_, err = f.ReadAt(b, at)
	return b, err
}

// rest answers clients once the run is over.
func (l *hubRun) answerEnded(cmd task.Command) (reply task.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch all := l.record.Tasks; cmd.Op {
	case task.Look:
		s := task.Stats{Admitted: int64(all), InputEnd: true, Start: l.record.Since}
		s.ByOutcome[task.OK], s.ByOutcome[task.Exit] = l.record.Done-l.record.Failed, l.record.Failed
		reply.Snapshot = &task.Snapshot{At: time.Now(), State: task.Done, Stats: s}
	case task.Explain:
		for _, id := range cmd.IDs {
			w := task.Where{State: "unknown"}
			if w.Task = id; 1 <= id && id <= all {
				w.State = "ended"
			}
			reply.Wheres = append(reply.Wheres, w)
		}
	default:
		reply.Err = errors.New("it is over")
	}
	return reply
}
