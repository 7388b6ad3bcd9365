package engine

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/keep/trust"
	"crew/runner/steer/control"
)

// The files in the directory of a detached run.
const (
	recordFile  = "run"   // a runRecord
	tasksFile   = "tasks" // StoredTask values, one a line
	stateDir    = "state" // the directory of --state
	journalFile = stateDir + "/journal.jsonl"
	outputFile  = stateDir + "/output.0"
)

// runRecord is the record of a detached run or of a request to add tasks, as JSON. While the run has a
// process, only that writes it.
type runRecord struct {
	RunInfo
	Options RunOptions `json:"terms"`
	End     *runEnd    `json:"over,omitempty"` // nil until the run is over
}

// runEnd is how a run has ended.
type runEnd struct {
	Status int        `json:"status"`          // the exit status that the run would have had without --detach
	Early  task.Bytes `json:"early,omitempty"` // why it ended early; "" if it did not
}

// StoredTask is a task of a detached run, as JSON.
type StoredTask struct {
	Spec json.RawMessage `json:"spec"` // as journal.EncodeTask encodes it

	// the signature of its attempts, if they bring commands

	Expires time.Time `json:"expires,omitzero"`
	Signer  []byte    `json:"signer,omitempty"`
	Sig     []byte    `json:"sig,omitempty"`
}

// endedTask is a line of the journal about a task that has ended.
type endedTask struct {
	Event string `json:"event"`
	task.Facts
	Stdout     journal.Extent `json:"stdout"`
	Stderr     journal.Extent `json:"stderr"`
	Unfinished bool           `json:"unfinished"` // it counts only if none follows

	outputs [2]task.Output
}

// readEnded reads lines of a journal up to the next endedTask. It skips damaged lines.
func readEnded(lines *bufio.Reader, e *endedTask) (err error) {
	for err == nil || err == errGarbage {
		*e = endedTask{}
		if err = readLine(lines, e); err == nil && e.Event == "ended" && !badFacts(&e.Facts) {
			return nil
		}
	}
	return err
}

// runDir is the directory of a detached run.
type runDir string

// file opens a file for reading and appending. It creates a missing one.
func (d runDir) file(name string) (*os.File, error) {
	return trust.OpenOwn(filepath.Join(string(d), name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// length returns the length of a file, 0 if it does not exist.
func (d runDir) length(name string) int64 {
	info, err := os.Stat(filepath.Join(string(d), name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// outputBytes returns how many bytes of output all runs in the directory dir have.
func outputBytes(dir string) (size int64) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		size += runDir(filepath.Join(dir, e.Name())).length(outputFile)
	}
	return size
}

// save writes the record to disk.
func (d runDir) save(record *runRecord) error {
	text, err := json.Marshal(record)
	if err == nil {
		err = trust.WritePrivate(filepath.Join(string(d), recordFile), text)
	}
	return err
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

// valid reports whether r can be the record of a run or of a request.
func (r *runRecord) valid() bool {
	s := r.Progress
	if r.For != "" {
		return validName(r.Run) && s != nil && s.Tasks == 0 && len(r.For) <= maxFor
	}
	_, bad := decode[Attempt](r.Options.Attempts, kindAttempt)
	return bad == nil && validName(r.Run) && validName(r.Queue) && s != nil && s.Tasks <= math.MaxInt64/100
}

// ended returns what is stored of tasks that have ended. See control.Details.
func (d runDir) ended(n int, wanted func(id uint64, o task.Outcome) bool) []task.EndedTask {
	f, err := d.file(journalFile)
	if err != nil {
		return nil
	}
	defer f.Close()
	return journal.ReadEnded(f, d, n, wanted)
}

// ReadAt reads a part of the stored outputs.
func (d runDir) ReadAt(p []byte, at int64) (int, error) {
	f, err := d.file(outputFile)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(p, at)
}

// readLine decodes a line of JSON into *to.
func readLine(r *bufio.Reader, to any) error {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		switch text = append(text, part...); {
		case errors.Is(err, bufio.ErrBufferFull) && len(text) < maxTaskSize:
		case err != nil:
			return err
		case readJSON(text, to) != nil:
			return errGarbage
		default:
			return nil
		}
	}
}

// hubRun is a detached run, or a request to add tasks, in the hub's process.
type hubRun struct {
	runDir
	d       *dispatcher
	notices *notifier

	fetched       chan struct{}         // closed once the tasks are fetched, or fetching has failed
	stopped       chan struct{}         // closed once the supervising goroutine has ended
	remoteClients control.RemoteClients // clients of crew ctl, once the run is over
	expiry        *time.Timer           // removes the run if its client is silent, or if its results are not fetched

	tasks uint64      // bytes of its record and its tasks
	waits atomic.Bool // it is not over, and its process has ended or not started

	mu       sync.Mutex
	record   runRecord
	fetchErr error           // why the tasks could not be fetched
	ctx      context.Context // done once the hub gives the run up
	giveUp   context.CancelFunc
}

// newRun returns a run with the given record. It is not supervised yet.
func (d *dispatcher) newRun(record runRecord) *hubRun {
	record.Host, record.PID, record.Version, record.Notice = task.ThisHost(), os.Getpid(), Version, ""
	h := &hubRun{d: d, record: record, runDir: runDir(filepath.Join(d.dir, record.Run)), fetched: make(chan struct{}), stopped: make(chan struct{})}
	h.notices = &notifier{notice: func(text string) {
		d.notices.notify("run " + task.Printable(cmp.Or(record.Name, record.Run)) + ": " + text)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.record.Notice = text
	}}
	h.waits.Store(true)
	h.ctx, h.giveUp = context.WithCancel(d.ctx)
	h.expiry = time.AfterFunc(math.MaxInt64, func() { _ = d.forget(h) })
	about := control.Hello{Name: record.Name, Command: task.Bytes(record.Job.Command)}
	server := control.Serve(control.Config{About: about, Do: h.answerEnded, Delay: control.NoSocket, Details: control.Details{Ended: h.ended}})
	_ = server.Sink().Close(task.Stats{}) // no more tasks will come
	h.remoteClients.ServeClient = server.ServeClient
	return h
}

// readProgressLocked reads the progress that the run's process has recorded, and returns how the run has
// ended, or nil. The caller must hold mu.
func (h *hubRun) readProgressLocked() *runEnd {
	saved, err := h.load()
	if err != nil {
		return nil
	}
	saved.Notice = h.record.Notice
	h.record.Progress, h.record.Paused = saved.Progress, saved.Paused
	return saved.End
}

// checkOver reports whether the run is over once its process has ended with the given status.
func (h *hubRun) checkOver(status int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.readProgressLocked()
	if status == statusHopeless { // the process has reported why
		end = &runEnd{1, task.Bytes(h.record.Notice)}
	}
	if end == nil {
		return false
	}
	h.record.State, h.record.End, h.record.Notice = runDone, end, ""
	h.expiry.Reset(keptFor)
	_ = h.save(&h.record) // otherwise the next hub starts the process again
	return true
}

// read returns the bytes of a file from offset at on, at most maxMessage, and none at its end.
func (h *hubRun) read(name string, at int64) ([]byte, error) {
	if name != tasksFile && name != journalFile && name != outputFile {
		return nil, errGarbage
	}
	f, err := os.Open(filepath.Join(string(h.runDir), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, at, maxMessage))
}

// answerEnded answers commands of clients once the run is over.
func (h *hubRun) answerEnded(cmd task.Command) (reply task.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch all := h.record.Tasks; cmd.Op {
	case task.Look:
		s := task.Stats{Admitted: int64(all), InputEnd: true, Start: h.record.Since}
		s.ByOutcome[task.OK], s.ByOutcome[task.Exit] = h.record.Done-h.record.Failed, h.record.Failed
		reply.Snapshot = &task.Snapshot{At: time.Now(), State: task.StateDone, Stats: s}
	case task.Explain:
		reply.Wheres = []task.Where{}
		for _, id := range cmd.IDs {
			w := task.Where{State: "unknown"}
			if w.Task = id; 1 <= id && id <= all {
				w.State = "ended"
			}
			reply.Wheres = append(reply.Wheres, w)
		}
	case task.Find:
		if reply.IDs = cmd.IDs; cmd.All {
			for id := range all {
				reply.IDs = append(reply.IDs, id+1)
			}
		}
	}
	if reply.Snapshot == nil && reply.Wheres == nil && reply.IDs == nil {
		reply.Err = errors.New("this run is over")
	}
	return reply
}
