package engine

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/credentials"
	"crew/runner/front/wiring"
)

// engineStatus is the output of crew engine status --json.
type engineStatus struct {
	Workers []Presence    `json:"workers"`
	Queues  []queueStatus `json:"queues"`
	Runs    []RunInfo     `json:"runs"`
}

type queueStatus struct {
	Queue   string `json:"queue"`
	Workers int    `json:"workers"`
	Slots   int    `json:"slots"`
	Busy    int    `json:"busy"`
	Tasks   uint64 `json:"tasks"` // unfinished tasks of detached runs
}

// parseRunInfo decodes the announcement of a run. ok is false if the announcement is invalid, or names
// another run than the subject: the server has checked the user in the subject.
func parseRunInfo(subject string, data []byte) (r RunInfo, ok bool) {
	if readJSON(data, &r) != nil || runInfoSubject(r.User, r.Run) != subject || !validName(r.Run) {
		return r, false
	}
	s := r.Progress
	return r, s == nil || 0 <= s.Failed && s.Failed <= s.Done && uint64(s.Done) <= s.Tasks && s.Tasks <= math.MaxInt64/100
}

// publishJSON publishes what, encoded as JSON.
func (s *session) publishJSON(subject string, what any) error {
	text, err := json.Marshal(what)
	if err == nil {
		err = s.nc.Publish(subject, text)
	}
	return err
}

const (
	discoverWait  = 300 * time.Millisecond // and discoverTrips round trips to the server
	discoverTrips = 4
	discoverMax   = 5 * time.Second // in total
)

// discover asks all workers and runs to announce themselves, and calls take with each message on
// subjects until take returns false or nothing has come for a while.
func (s *session) discover(ctx context.Context, take func(*nats.Msg) (more bool), subjects ...string) error {
	begun := time.Now()
	msgs := make(chan *nats.Msg, 1<<16)
	for _, subject := range subjects {
		sub, err := s.nc.ChanSubscribe(subject, msgs)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	if err := cmp.Or(s.nc.Publish(askSubject, nil), s.checkAllowed()); err != nil {
		return err
	}
	rtt := time.Since(begun)
	ends, cancel := context.WithTimeout(ctx, discoverMax)
	defer cancel()
	for {
		select {
		case m := <-msgs:
			if !take(m) {
				return nil
			}
		case <-time.After(discoverWait + discoverTrips*rtt):
			return nil
		case <-ends.Done():
			return ctx.Err()
		case <-s.refused:
			return s.refusedErr
		}
	}
}

// status prints the workers, queues and runs.
func (s *session) status(c *wiring.Call) error {
	st, err := s.queryStatus(context.Background(), "")
	if err != nil {
		return fmt.Errorf("ask the hub: %w", err)
	}
	if c.Ctl.JSON {
		text, err := json.Marshal(st)
		if err != nil {
			return err
		}
		return write(c, string(text)+"\n")
	}
	return write(c, st.text())
}

// queryStatus asks for the status. It returns as soon as it has found the run with the ID run; ""
// waits for all.
func (s *session) queryStatus(ctx context.Context, run string) (*engineStatus, error) {
	workers, runs := map[string]Presence{}, map[string]RunInfo{} // by subject
	whose := s.user
	if whose == userToken(credentials.Owner) && s.hub { // on other servers the name is nothing special
		whose = "*"
	}
	err := s.discover(ctx, func(m *nats.Msg) bool {
		if w, is := parsePresence(m.Subject, m.Data); is && w.State != gone {
			workers[m.Subject] = w
		}
		r, is := parseRunInfo(m.Subject, m.Data)
		if is {
			runs[m.Subject] = r
		}
		return !is || r.Run != run
	}, presenceSubject("*", allWorkers), runInfoSubject(whose, "*"))
	if err != nil {
		return nil, err
	}
	st, queues := &engineStatus{[]Presence{}, []queueStatus{}, []RunInfo{}}, map[string]queueStatus{}
	for w := range maps.Values(workers) {
		st.Workers = append(st.Workers, w)
		q := queues[w.Queue]
		queues[w.Queue] = queueStatus{w.Queue, q.Workers + 1, q.Slots + w.Slots, q.Busy + w.Busy, 0}
	}
	slices.SortFunc(st.Workers, func(a, b Presence) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.ID, b.ID)) })
	for r := range maps.Values(runs) {
		r.Refused = nil
		for i := range st.Workers {
			w := &st.Workers[i]
			if why := r.unusable(w, r.Version); why != "" && w.Queue == r.Queue && r.State == runRunning && r.Job != (Job{}) {
				r.Refused = append(r.Refused, why)
			}
		}
		st.Runs = append(st.Runs, r)
		if q := queues[r.Queue]; r.For == "" {
			if q.Queue = r.Queue; r.Progress != nil {
				q.Tasks += r.Tasks - uint64(r.Done)
			}
			queues[r.Queue] = q
		}
	}
	slices.SortFunc(st.Runs, func(a, b RunInfo) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Run, b.Run)) })
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		st.Queues = append(st.Queues, queues[name])
	}
	return st, nil
}

// statusText is the template of what crew engine status prints. Tabs separate the cells of its tables.
//
//go:embed status.txt
var statusText string

// text returns the status as tables.
func (st *engineStatus) text() string {
	funcs := template.FuncMap{
		"cell":  cell,
		"count": func(n uint64) string { return task.Count(int64(n), "task") },
		"date":  func(at time.Time) string { return at.Local().Format(time.DateTime) },
		"join":  strings.Join,
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if err := cmp.Or(template.Must(template.New("").Funcs(funcs).Parse(statusText)).Execute(t, st), t.Flush()); err != nil {
		panic("internal error: " + err.Error())
	}
	return b.String()
}

// cell returns text from another machine as a cell of a table. It can break neither the table nor the terminal.
func cell(text string) string {
	return strings.ReplaceAll(task.Printable(cmp.Or(text, "-")), "\t", " ")
}

var errNoRun = errors.New("there is no run")

// findRun returns the run with an ID or, if only one has it, with a name.
func (s *session) findRun(ctx context.Context, name string) (*RunInfo, error) {
	if name == "" { // every run without a name would match
		return nil, errors.New("the name of the run is empty: crew engine status lists them")
	}
	var found []string
	var run *RunInfo
	for looks := 0; looks < 2 && run == nil; looks++ { // a busy run announces itself late
		st, err := s.queryStatus(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look for run %s: %w", name, err)
		}
		for i := range st.Runs {
			switch r := &st.Runs[i]; name {
			case r.Run:
				return r, nil
			case r.Name:
				run, found = r, append(found, r.Run)
			}
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

// cancel ends a run, or removes a detached run that is not running.
func (s *session) cancel(c *wiring.Call) error {
	r, err := s.findRun(context.Background(), c.Ctl.Run)
	switch {
	case err != nil:
	case r.Progress != nil && r.State != runRunning:
		err = s.forget(r.Run)
	default:
		_, err = s.askRun(r, runSubject(r.User, r.Run), Order{Op: opCancel, By: me()})
	}
	return err
}

// askRetrying sends an order and returns the answer. With retry, it tries again for some time while
// nothing listens on the subject.
func (s *session) askRetrying(ctx context.Context, subject string, o Order, retry bool) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerWait)
	defer cancel()
	for {
		a, err = s.ask(ctx, subject, o)
		if !retry || !errors.Is(err, nats.ErrNoResponders) || !sleep(ctx, reconnectWait) {
			return a, err
		}
	}
}

// askRun sends an order about a run to its submitter or to the hub, which may just have accepted the
// run.
func (s *session) askRun(r *RunInfo, subject string, o Order) (Answer, error) {
	o.Run = r.Run
	a, err := s.askRetrying(context.Background(), subject, o, r.Progress != nil)
	switch {
	case err != nil:
		err = fmt.Errorf("run %s does not answer: check process %d on %s, which submits it", r.Run, r.PID, task.Printable(r.Host))
	case a.Err != "":
		err = errors.New("run " + r.Run + ": " + a.Err)
	}
	return a, err
}

// forget asks the hub to end and remove a run that was handed over.
func (s *session) forget(run string) error {
	a, err := s.askHub(context.Background(), dispatchSubject(s.user), Order{Op: opForget, Run: run})
	if a.None {
		err = nil
	}
	return err
}
