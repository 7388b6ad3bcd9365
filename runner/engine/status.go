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
	Workers []Presence    `json:"workers"`
	Queues  []queueStatus `json:"queues"`
	Runs    []Enrolment   `json:"runs"`
}

type queueStatus struct {
	Queue   string `json:"queue"`
	Workers int    `json:"workers"`
	Slots   int    `json:"slots"`
	Busy    int    `json:"busy"`
	Tasks   uint64 `json:"tasks"` // handed over, and not ended
}

// enrolment reads what a run tells of itself. It refuses what names another one than the subject does,
// for whose user the server vouches, and what no run can be like.
func enrolment(subject string, data []byte) (r Enrolment, ok bool) {
	if readJSON(data, &r) != nil || enrolSubject(r.User, r.Run) != subject || !validName(r.Run) {
		return r, false
	}
	s := r.Stocked
	return r, s == nil || 0 <= s.Failed && s.Failed <= s.Done && uint64(s.Done) <= s.Tasks && s.Tasks <= math.MaxInt64/100
}

// tell publishes what there is to tell of a worker or a run.
func (s *session) tell(subject string, what any) error {
	text, err := json.Marshal(what)
	if err == nil {
		err = s.nc.Publish(subject, text)
	}
	return err
}

const (
	askPatience = 300 * time.Millisecond // and some times what it takes to the server and back
	askTimes    = 4
	askMost     = 5 * time.Second // in all
)

// whoIs asks who is there, and calls take with what comes on some subjects until that returns false,
// nobody is there, or nothing has come for some time.
func (s *session) whoIs(ctx context.Context, take func(*nats.Msg) (more bool), subjects ...string) error {
	rtt, err := s.nc.RTT()
	if err != nil {
		return err
	}
	nobody := s.nc.NewInbox() // where the server says so
	msgs := make(chan *nats.Msg, 1<<16)
	for _, subject := range append(subjects, nobody) {
		sub, err := s.nc.ChanSubscribe(subject, msgs)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	if err = s.nc.PublishRequest(askSubject, nobody, nil); err != nil {
		return err
	}
	for end := time.After(askMost); ; {
		select {
		case m := <-msgs:
			if m.Subject == nobody || !take(m) {
				return nil
			}
		case <-time.After(askPatience + askTimes*rtt):
			return nil
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// status prints the workers and the runs that there are.
func (s *session) status(c *wiring.EngineCall) error {
	st, err := s.look(context.Background(), "")
	if err != nil {
		return fmt.Errorf("ask the hub: %w", err)
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

// look asks for what status prints, or only until there is a run with an ID.
func (s *session) look(ctx context.Context, run string) (*engineStatus, error) {
	st := &engineStatus{Workers: []Presence{}, Queues: []queueStatus{}, Runs: []Enrolment{}}
	err := s.whoIs(ctx, func(m *nats.Msg) bool {
		st.add(m.Subject, m.Data)
		return run == "" || !slices.ContainsFunc(st.Runs, func(r Enrolment) bool { return r.Run == run })
	}, presenceSubject("*", anyOne), enrolSubject("*", "*"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(st.Workers, func(a, b Presence) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(st.Queues, func(a, b queueStatus) int { return cmp.Compare(a.Queue, b.Queue) })
	slices.SortFunc(st.Runs, func(a, b Enrolment) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Run, b.Run)) })
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

// add adds what a worker or a run tells of itself, once.
func (st *engineStatus) add(subject string, data []byte) {
	if w, ok := presence(subject, data); ok {
		if w.State == gone || slices.ContainsFunc(st.Workers, func(o Presence) bool { return o.ID == w.ID && o.Queue == w.Queue }) {
			return
		}
		q := st.queue(w.Queue)
		q.Workers++
		q.Slots += w.Slots
		q.Busy += w.Busy
		st.Workers = append(st.Workers, w)
	} else if r, ok := enrolment(subject, data); ok {
		if slices.ContainsFunc(st.Runs, func(o Enrolment) bool { return o.Run == r.Run && o.User == r.User }) {
			return
		}
		if q := st.queue(r.Queue); r.Stocked != nil {
			q.Tasks += r.Tasks - uint64(r.Done)
		}
		st.Runs = append(st.Runs, r)
	}
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
	row("WORKER", "QUEUE", "SLOTS", "BUSY", "DONE", "FAILED", "STATE", "LABELS", "OFFERS", "COMMAND")
	for _, w := range st.Workers {
		command := w.Command
		if w.Signed {
			command = strings.TrimPrefix(command+" or what is signed", " or ")
		}
		row(w.ID, w.Queue, w.Slots, w.Busy, w.Done, w.Failed, w.State, strings.Join(w.Labels, ","), w.Offers, command)
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
func (s *session) find(ctx context.Context, name string) (*Enrolment, error) {
	if name == "" { // which would be every run without a name
		return nil, errors.New("the name of the run is empty: crew engine status lists them")
	}
	st, err := s.look(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look for run %s: %w", name, err)
	}
	var found []string
	var run *Enrolment
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
		return s.drop(r)
	}
	a, err := s.askRun(ctx, runSubject(r.User, r.Run), r, Order{Op: opCancel, ID: ID{Run: r.Run, Epoch: r.Epoch}, By: me()})
	return answered(r, &a, err)
}

// answered returns why a run has not done what it was asked, if so.
func answered(r *Enrolment, a *Answer, err error) error {
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
func (s *session) askRun(ctx context.Context, subject string, r *Enrolment, o Order) (a Answer, err error) {
	for {
		a, err = s.ask(ctx, subject, o)
		if r.Stocked == nil || !errors.Is(err, nats.ErrNoResponders) || !pause(ctx, attachLook) {
			return a, err
		}
	}
}

// drop ends a run that was handed over: workers end what runs, and the hub removes it.
func (s *session) drop(r *Enrolment) error {
	err := s.over(r)
	if err == nil {
		err = s.forget(r)
	}
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", r.Run, err)
	}
	return nil
}

// over has workers end what runs of a run.
func (s *session) over(r *Enrolment) error {
	err := s.heartbeat(r.Queue, Heartbeat{Run: r.Run, Epoch: r.Epoch, Over: true})
	if err == nil {
		err = s.nc.FlushTimeout(answerWait)
	}
	return err
}

// forget has the hub remove a run that has ended.
func (s *session) forget(r *Enrolment) error {
	a, err := s.askHub(dispatchSubject, Order{Op: opForget, ID: ID{Run: r.Run}})
	if a.None {
		err = nil
	}
	return err
}
