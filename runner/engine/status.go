package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/task"
	"crew/runner/wiring"
)

// engineStatus is the output of crew engine status --json.
type engineStatus struct {
	Workers []workerStatus `json:"workers"`
	Queues  []queueStatus  `json:"queues"`
	Runs    []runStatus    `json:"runs"`
}

type workerStatus struct {
	Queue string  `json:"queue"`
	Seen  float64 `json:"seen_s"` // how long ago it was last heard of
	Presence
}

type queueStatus struct {
	Queue   string `json:"queue"`
	Workers int    `json:"workers"`
	Slots   int    `json:"slots"`
	Busy    int    `json:"busy"`
	Tasks   uint64 `json:"tasks"` // handed over, and not ended
}

type runStatus struct {
	Queue string `json:"queue"`
	Enrolment
}

// enrolment reads a run's record. It refuses one that names another run than its key does,
// and what no run can be like.
func enrolment(key string, value []byte) (r runStatus, ok bool) {
	queue, run, _ := strings.Cut(key, ".")
	r.Queue = queue
	if readJSON(value, &r.Enrolment) != nil || r.Run != run || !validName(run) || userToken(r.User) != r.User {
		return r, false
	}
	s := r.Stocked
	return r, s == nil || 0 <= s.Failed && s.Failed <= s.Done && uint64(s.Done) <= s.Tasks && s.Tasks <= math.MaxInt64/100
}

const lostState = "lost" // of a worker, or a run's submitter, that is not heard of

// status prints the workers and the runs that there are.
func (s *session) status(c *wiring.EngineCall) error {
	st, err := s.look(context.Background())
	if err != nil {
		return fmt.Errorf("look at the engine: %w", notReady(err))
	}
	if c.JSON {
		text, err := json.Marshal(st)
		if err != nil {
			return err
		}
		return say(c, string(text)+"\n")
	}
	return say(c, st.text())
}

// look reads what status prints.
func (s *session) look(ctx context.Context) (*engineStatus, error) {
	st := &engineStatus{Workers: []workerStatus{}, Queues: []queueStatus{}, Runs: []runStatus{}}
	err := s.records(ctx, workersBucket, "*."+anyOne, st.addWorker)
	if err == nil {
		err = s.records(ctx, runsBucket, "*.*", st.addRun)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(st.Workers, func(a, b workerStatus) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(st.Queues, func(a, b queueStatus) int { return cmp.Compare(a.Queue, b.Queue) })
	slices.SortFunc(st.Runs, func(a, b runStatus) int { return a.Since.Compare(b.Since) })
	return st, nil
}

// queue returns the row of a queue, until the next call.
func (st *engineStatus) queue(name string) *queueStatus {
	i := slices.IndexFunc(st.Queues, func(q queueStatus) bool { return q.Queue == name })
	if i < 0 {
		i = len(st.Queues)
		st.Queues = append(st.Queues, queueStatus{Queue: name})
	}
	return &st.Queues[i]
}

func (st *engineStatus) addWorker(key string, value []byte, age time.Duration) {
	w, ok := workerStatus{Seen: age.Seconds()}, false
	w.Queue, _, _ = strings.Cut(key, ".")
	if w.Presence, ok = presence(key, value); !ok || w.State == gone {
		return
	}
	if age > w.TTL {
		w.State = lostState
	} else {
		q := st.queue(w.Queue)
		q.Workers++
		q.Slots += w.Slots
		q.Busy += w.Busy
	}
	st.Workers = append(st.Workers, w)
}

func (st *engineStatus) addRun(key string, value []byte, age time.Duration) {
	r, ok := enrolment(key, value)
	if !ok {
		return
	}
	if q := st.queue(r.Queue); r.Stocked != nil {
		q.Tasks += r.Tasks - uint64(r.Done)
	}
	if r.State == runRunning && r.Stocked == nil && age > 3*enrolEvery {
		r.State = lostState
	}
	st.Runs = append(st.Runs, r)
}

// text returns tables.
func (st *engineStatus) text() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				_, _ = t.Write([]byte{'\t'})
			}
			// What others have written must not break the table or the terminal.
			_, _ = t.Write([]byte(strings.ReplaceAll(task.Printable(cmp.Or(fmt.Sprint(c), "-")), "\t", " ")))
		}
		_, _ = t.Write([]byte{'\n'})
	}
	row("WORKER", "QUEUE", "SLOTS", "BUSY", "DONE", "FAILED", "SEEN", "STATE", "LABELS", "OFFERS", "COMMAND")
	for _, w := range st.Workers {
		command := w.Command
		if w.Signed {
			command = strings.TrimPrefix(command+" or what is signed", " or ")
		}
		seen := task.Brief(time.Duration(w.Seen * float64(time.Second)))
		row(w.ID, w.Queue, w.Slots, w.Busy, w.Done, w.Failed, seen, w.State, strings.Join(w.Labels, ","), w.Offers, command)
	}
	_ = t.Flush()
	b.WriteByte('\n')
	row("QUEUE", "WORKERS", "SLOTS", "BUSY", "TASKS")
	for _, q := range st.Queues {
		row(q.Queue, q.Workers, q.Slots, q.Busy, q.Tasks)
	}
	_ = t.Flush()
	b.WriteByte('\n')
	row("RUN", "NAME", "QUEUE", "STATE", "SINCE", "SUBMITTER")
	for _, r := range st.Runs {
		state := r.State
		if r.Paused {
			state = paused
		}
		if r.Stocked != nil {
			state += fmt.Sprintf(" (%d of %s", r.Done, task.Count(int64(r.Tasks), "task"))
			if r.Failed > 0 {
				state += fmt.Sprintf(", %d failed", r.Failed)
			}
			state += ")"
		}
		row(r.Run, r.Name, r.Queue, state, r.Since.Local().Format(time.DateTime), fmt.Sprintf("%s, process %d", r.Host, r.PID))
	}
	_ = t.Flush()
	return b.String()
}

var errNoRun = errors.New("there is no run")

// find returns the run with an ID or, if there is just one, with a name.
func (s *session) find(ctx context.Context, name string) (*runStatus, error) {
	if name == "" { // which would be every run without a name
		return nil, errors.New("the name of the run is empty: crew engine status lists them")
	}
	st, err := s.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for run %s: %w", name, notReady(err))
	}
	var found []string
	var run *runStatus
	for i := range st.Runs {
		switch r := &st.Runs[i]; name {
		case r.Run:
			return r, nil
		case r.Name:
			run, found = r, append(found, r.Run)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w %s: crew engine status lists them", errNoRun, name)
	case 1:
		return run, nil
	}
	return nil, fmt.Errorf("several runs are called %s: write one of %s", name, strings.Join(found, ", "))
}

// cancel has a run end, or removes what there is of one that does not run.
func (s *session) cancel(c *wiring.EngineCall) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*answerWait)
	defer cancel()
	r, err := s.find(ctx, c.Operand)
	if err != nil {
		return err
	}
	if r.Stocked != nil && r.State != runRunning {
		return s.drop(ctx, r)
	}
	a, err := s.askRun(ctx, runSubject(r.User, r.Run), r, Order{Op: opCancel, ID: ID{Run: r.Run, Epoch: r.Epoch}, By: me()})
	if err != nil && (r.State == lostState || r.Stocked != nil && r.Version != Version) {
		return s.drop(ctx, r) // it was killed, and left what it had there, or no hub of this version goes on with it
	}
	return answered(r, &a, err)
}

// answered returns why a run has not done what it was asked, if so.
func answered(r *runStatus, a *Answer, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("run %s does not answer: see process %d on %s, which submits it", r.Run, r.PID, task.Printable(r.Host))
	case a.Err != "":
		return errors.New("run " + r.Run + ": " + a.Err)
	}
	return nil
}

// askRun sends an order to the submitter of a run. A hub that has just taken a run does not
// listen yet.
func (s *session) askRun(ctx context.Context, subject string, r *runStatus, o Order) (a Answer, err error) {
	for {
		a, err = s.ask(ctx, subject, o)
		if r.Stocked == nil || !errors.Is(err, nats.ErrNoResponders) || !pause(ctx, attachLook) {
			return a, err
		}
	}
}

// drop ends a run that has no submitter any more: it has workers end what runs, and removes what the
// engine has of it.
func (s *session) drop(ctx context.Context, r *runStatus) error {
	err := s.heartbeat(r.Queue, Heartbeat{Run: r.Run, Epoch: r.Epoch, Over: true})
	if err == nil {
		err = s.nc.FlushTimeout(answerWait)
	}
	if err == nil {
		err = s.forget(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", r.Run, err)
	}
	return nil
}

// forget removes what the engine has of a run whose tasks have ended.
func (s *session) forget(ctx context.Context, r *runStatus) error {
	if r.Stocked != nil {
		if a, err := s.askHub(dispatchSubject, Order{Op: opForget, ID: ID{Run: r.Run}}); !a.None {
			return err
		}
	}
	return s.unenrol(ctx, r.Queue, r.Run)
}
