package wiring

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"sync"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// maxEnvBytes is how many bytes of environments are remembered, so that tasks can share them.
const maxEnvBytes = 4 << 20

// feed adds the tasks of clients to the run of crew serve. It is also the run's Source, which yields no
// tasks of its own. Many clients may add at the same time: the one that holds turn admits the additions
// of all that wait, so they share one sync of the journal (group commit).
type feed struct {
	// configuration

	*source
	queue          *journal.Journal // nil without --state
	do             func(task.Command) task.Reply
	reportRestored func(left int)
	claim          func(*task.Task) // reserves the directory for its results
	over           chan struct{}    // closed when the run is over
	restored       chan struct{}    // closed when the tasks of an earlier crew serve are admitted
	markRestored   func()           // closes restored, and unlocks turn for the first time

	// additions that were not admitted yet, in order

	mu      sync.Mutex
	pending []*addition

	// state, guarded by turn, which is held from the start until the tasks of an earlier crew serve
	// are admitted

	turn       sync.Mutex
	restoreErr error               // why the tasks of an earlier crew serve could not be admitted
	envs       map[string][]string // environments by their content
	envBytes   int                 // size of envs
}

// addition is a request to add tasks.
type addition struct {
	*control.Addition
	accepted   func(ids, known []uint64) // called once the tasks are in the journal, if there is one
	arrivalID  string                    // the ID of a request that was left at the hub; "" for a client
	tasks      []*task.Task
	ids, known []uint64 // the numbers of all tasks, and of tasks that are not new
	before     func()   // commits the additions before this one
	done       bool
	err        error // if done
}

// newFeed returns the feed of a run that carries out commands by do. It calls reportRestored with the number of
// tasks that an earlier crew serve left.
func newFeed(s *source, queue *journal.Journal, do func(task.Command) task.Reply, reportRestored func(left int)) *feed {
	f := &feed{
		source: s, queue: queue, do: do, reportRestored: reportRestored, claim: func(*task.Task) {},
		over: make(chan struct{}), restored: make(chan struct{}), envs: map[string][]string{},
	}
	f.turn.Lock()
	f.markRestored = sync.OnceFunc(func() {
		close(f.restored)
		f.turn.Unlock()
	})
	return f
}

// close makes Next and Add return once the run is over. After close has returned, Add records nothing
// more, so the journal may be closed.
func (f *feed) close() {
	close(f.over)
	f.markRestored()
	f.turn.Lock() // wait for additions that were recorded and must be withdrawn
	defer f.turn.Unlock()
}

// room returns how many tasks the run takes now, in Room. If it takes none, because it is full or ends,
// the error says so, and the client may try again later.
func (f *feed) room() task.Reply {
	select {
	case <-f.over: // the run may not even have started
		return task.Reply{Err: errRunOver}
	default:
	}
	if f.restoreErr != nil {
		return task.Reply{Err: f.restoreErr}
	}
	return f.doAdd(task.Command{Op: task.Add})
}

// doAdd carries out a command to add tasks. If the run refuses it, the client may try again later.
func (f *feed) doAdd(cmd task.Command) task.Reply {
	reply := f.do(cmd)
	if reply.Err != nil {
		reply.Err = failure(statusBusy, reply.Err.Error())
	}
	return reply
}

var errRunOver = &control.Refused{Text: "this run is over", Status: statusBusy, Over: true}

// Next admits the tasks of an earlier crew serve, and then blocks until the run is over.
func (f *feed) Next(func() uint64) (*task.Task, error) {
	f.restoreErr = f.restore()
	f.markRestored()
	if f.restoreErr != nil {
		return nil, f.restoreErr
	}
	<-f.over
	return nil, io.EOF
}

// restore admits the tasks of the journal, except tasks that succeeded and were shown and logged. If the
// run already drains, they stay in the journal.
func (f *feed) restore() error {
	if f.queue == nil {
		f.room() // from now on the run can become idle
		return nil
	}
	cmd := task.Command{Op: task.Add, N: int(f.queue.LastID()), Succeeded: f.queue.Succeeded()}
	known := map[uint64]bool{} // tasks of the journal, with known outcomes
	var waiting []*task.Task
	for t, err := range f.queue.QueueTasks() {
		if err != nil {
			return err
		}
		known[t.ID] = true
		if name := t.Terms().Name; name != "" {
			f.tasks.Names()[string(name)] = t.ID
		}
		switch {
		case t.Done == nil:
			f.claim(t)
			waiting = append(waiting, t)
		case t.Done.Outcome.Succeeded() && t.Done.Earlier && t.Done.Logged && t.Terms().RerunOf == 0:
			continue
		}
		cmd.Tasks = append(cmd.Tasks, t)
	}
	for _, t := range waiting {
		for _, id := range t.Terms().After {
			if !known[id] { // forgotten, but it succeeded: otherwise t would not wait
				cmd.Succeeded = append(cmd.Succeeded, [2]uint64{id, id})
			}
		}
	}
	f.do(cmd)
	f.reportRestored(len(waiting))
	return nil
}

// Add is the Feed of the control server. When it returns nil, the tasks are in the journal, if there is
// one, and will run even if this run ends first.
func (f *feed) Add(a *control.Addition, accepted func(ids, known []uint64)) error {
	return f.add(&addition{Addition: a, accepted: accepted})
}

// Arrive adds the tasks of a request from another machine under an ID, unless it has already done so.
// later reports whether the request failed but may succeed later. See Call.
func (f *feed) Arrive(id string, line []byte) (later bool, err error) {
	select {
	case <-f.restored:
	default: // do not wait: the run may end before it has restored its tasks
		return true, errors.New("this run is just starting")
	}
	if f.queue.Delivered(id) {
		return false, nil
	}
	a, err := control.ReadAddition(line)
	if err != nil {
		return false, err
	}
	if !a.Lines && !f.opts.TakesValues() { // the submitter could not know whether the run takes values
		a.Values, a.Command = nil, a.Values
	}
	a.Lines, a.Dir, a.Env = a.Lines && !f.opts.TakesValues(), "", nil
	err = f.add(&addition{Addition: a, accepted: func(_, _ []uint64) {}, arrivalID: id})
	refused, is := errors.AsType[*control.Refused](err)
	return err != nil && !(is && refused.Status == statusTrouble), err
}

func (f *feed) add(x *addition) error {
	if err := f.check(x.Addition); err != nil {
		return err
	}
	f.mu.Lock()
	f.pending = append(f.pending, x)
	f.mu.Unlock()
	f.turn.Lock()
	defer f.turn.Unlock()
	if !x.done {
		f.mu.Lock()
		list := f.pending
		f.pending = nil
		f.mu.Unlock()
		f.admit(list)
	}
	return x.err
}

// check refuses an addition in a form that this run does not take.
func (f *feed) check(a *control.Addition) error {
	o := f.opts
	switch {
	case o.TakesValues() && (a.Lines || len(a.Command) > 0):
		return failure(statusTrouble, "this run takes values, not commands")
	case !o.TakesValues() && !a.Lines && len(a.Values) > 0:
		return failure(statusTrouble, "this run takes commands, not values")
	case a.Unique != nil && *a.Unique != "" && len(a.Values) > 1:
		return failure(statusTrouble, "--unique=KEY is for one task: add each by itself, or drop =KEY")
	case len(a.Values) == 0 && len(a.Command) == 0:
		return failure(statusTrouble, "there is nothing to add")
	}
	return nil
}

// admit admits additions, each as a whole or not at all. The submitter of a request from the hub was told that
// it was accepted, so it is not refused for its size: an empty queue takes it. The caller must hold turn.
func (f *feed) admit(list []*addition) {
	now := f.room()
	room, last := now.Room, now.Last
	var ready []*addition
	for _, x := range list {
		x.before = func() {
			f.commit(ready)
			ready = nil
		}
		number := func() uint64 { return last + uint64(len(x.tasks)) + 1 }
		if x.done, x.err = true, now.Err; x.err == nil {
			if err := f.makeTasks(x, number); err != nil {
				x.err = failure(statusTrouble, err.Error())
			} else if len(x.tasks) > room && (x.arrivalID == "" || room < f.opts.Serve.Feed.MaxQueued) {
				x.err = failure(statusBusy, task.ErrFull.Error())
			}
		}
		switch {
		case x.err != nil:
			f.tasks.Names().RemoveAfter(last)
		case len(x.tasks) > 0:
			room, last = room-len(x.tasks), number()-1
			ready = append(ready, x)
		case len(x.known) > 0:
			if x.arrivalID != "" {
				x.err = f.queue.Accept(nil, x.arrivalID)
			}
			x.accepted(x.ids, x.known)
		}
	}
	f.commit(ready)
}

// commit records the tasks of all additions and gives them to the run. The caller must hold turn.
func (f *feed) commit(list []*addition) {
	if len(list) == 0 {
		return
	}
	all, door := allTasks(list), ""
	for _, x := range list {
		door = cmp.Or(door, x.arrivalID)
	}
	for _, t := range all {
		f.claim(t)
	}
	// Even if this fails, no other task gets the numbers: the journal may hold them.
	err := f.doAdd(task.Command{Op: task.Add, N: int(all[len(all)-1].ID)}).Err
	if err == nil && f.queue != nil {
		err = f.queue.Accept(all, door)
	}
	if err == nil {
		for _, x := range list {
			x.accepted(x.ids, x.known)
		}
		err = f.doAdd(task.Command{Op: task.Add, N: 1, Tasks: all}).Err
		if f.queue != nil && err != nil { // the run has just started to drain
			fromHub := func(x *addition) bool { return x.arrivalID != "" } // they stay for the next run
			if list = slices.DeleteFunc(list, fromHub); len(list) > 0 {
				err = cmp.Or(f.queue.Withdraw(allTasks(list)), err)
			}
		}
	}
	for _, x := range list {
		x.err = cmp.Or(x.err, err)
	}
}

// allTasks returns the tasks of additions.
func allTasks(list []*addition) (all []*task.Task) {
	for _, x := range list {
		all = append(all, x.tasks...)
	}
	return all
}

// convert converts a list of strings to another string type.
func convert[To, From ~string](list []From) []To {
	converted := make([]To, len(list))
	for i, s := range list {
		converted[i] = To(s)
	}
	return converted
}
