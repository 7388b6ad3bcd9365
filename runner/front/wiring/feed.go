package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/steer/control"
)

// mostEnvironments is how many bytes of environments are remembered, so that tasks
// can share them.
const mostEnvironments = 4 << 20

// feed brings the tasks of crew serve into its run: it takes them
// from clients, and is the run's Source, which has none of its own. Many clients may
// add at once. The one that has the turn admits what all of them have brought so far,
// so they share a sync of the journal (group commit).
type feed struct {
	// configuration

	source *source
	queue  *journal.Journal // nil without --state
	do     func(task.Command) task.Reply
	goesOn func(left int)
	over   chan struct{} // closed when the run is over
	begun  chan struct{} // closed when the tasks of an earlier crew serve are admitted
	begin  func()        // closes begun, and unlocks turn for the first time

	// additions that nobody has admitted yet, in order

	mu      sync.Mutex
	arrived []*addition

	// state, under the lock turn, which is held at first, until the tasks of an
	// earlier crew serve are admitted

	turn   sync.Mutex
	bad    error               // why the tasks of an earlier crew serve could not be admitted
	number func() uint64       // the run's; nil until it has begun
	known  map[string][]string // environments by all they hold
	bytes  int                 // their size
}

// addition is a request to add tasks.
type addition struct {
	*control.Addition
	numbered func(ids []uint64)
	door     string // the ID of what has brought it; "" for a client
	tasks    []*task.Task
	over     bool
	err      error // if over
}

// newFeed returns the feed of a run whose door is do. goesOn is told how many tasks an
// earlier crew serve has left.
func newFeed(s *source, queue *journal.Journal, do func(task.Command) task.Reply, goesOn func(left int)) *feed {
	f := &feed{
		source: s, queue: queue, do: do, goesOn: goesOn,
		over: make(chan struct{}), begun: make(chan struct{}), known: map[string][]string{},
	}
	f.turn.Lock()
	f.begin = sync.OnceFunc(func() {
		close(f.begun)
		f.turn.Unlock()
	})
	return f
}

// close lets Next and Add return. The run is over. Once close returns, Add records
// nothing more, so the journal may be closed.
func (f *feed) close() {
	close(f.over)
	f.begin()
	f.turn.Lock() // after those that have been recorded and are to be withdrawn
	defer f.turn.Unlock()
}

// mayAdd asks the run whether it takes tasks, and how many. If it does not, it is full or ends,
// and the client may try again later.
func (f *feed) mayAdd() task.Reply {
	select {
	case <-f.over: // it may not even have begun
		return task.Reply{Err: errRunOver}
	default:
	}
	if f.bad != nil {
		return task.Reply{Err: f.bad}
	}
	return f.offer(task.Command{Op: task.Add})
}

// offer carries out a command to add tasks. If it is refused, the client may try again later.
func (f *feed) offer(cmd task.Command) task.Reply {
	reply := f.do(cmd)
	if reply.Err != nil {
		reply.Err = &control.Refused{Text: reply.Err.Error(), Status: statusBusy}
	}
	return reply
}

var errRunOver = &control.Refused{Text: "it is over", Status: statusBusy, Over: true}

// Next admits the tasks of an earlier crew serve, and blocks until the run is over. Tasks
// that are added get their numbers from number.
func (f *feed) Next(number func() uint64) (*task.Task, error) {
	f.number = number
	f.bad = f.restore()
	f.begin()
	if f.bad != nil {
		return nil, f.bad
	}
	<-f.over
	return nil, io.EOF
}

// restore admits the tasks that the journal holds, except those of which nothing is
// left to know. If the run drains already, they stay there.
func (f *feed) restore() error {
	if f.queue == nil {
		f.mayAdd() // from now on it can be idle
		return nil
	}
	cmd := task.Command{Op: task.Add, N: int(f.queue.LastID()), Succeeded: f.queue.Succeeded()}
	known := map[uint64]bool{} // those of which it is known whether they have succeeded
	needs := map[string][]task.Need{}
	var waiting []*task.Task
	for t, err := range f.queue.QueueTasks() {
		if err != nil {
			return err
		}
		known[t.ID] = true
		if name := t.Terms().Name; name != "" {
			f.source.tasks.Names().Define(name, t.ID)
		}
		switch {
		case t.Done == nil:
			if list := t.Terms().Needs; len(list) > 0 {
				t.Asked.Needs = shared(needs, fmt.Sprint(list), list)
			}
			waiting = append(waiting, t)
		case t.Done.Outcome.Succeeded() && t.Done.Earlier && t.Done.Logged:
			continue
		}
		cmd.Tasks = append(cmd.Tasks, t)
	}
	for _, t := range waiting {
		for _, id := range t.Terms().After {
			if !known[id] { // it is forgotten, but if it had failed, t would not wait
				cmd.Succeeded = append(cmd.Succeeded, [2]uint64{id, id})
			}
		}
	}
	f.do(cmd)
	f.goesOn(len(waiting))
	return nil
}

// shared returns the list that a map has for a key, or puts it there, so that tasks share equal
// lists.
func shared[T any](known map[string][]T, key string, list []T) []T {
	if same, ok := known[key]; ok {
		return same
	}
	known[key] = list
	return list
}

// Add is the Feed of the control server. Once it returns no error, the tasks are in the
// journal, if there is one, and run even if this run ends before.
func (f *feed) Add(a *control.Addition, numbered func(ids []uint64)) error {
	return f.add(&addition{Addition: a, numbered: numbered})
}

// Arrive adds what the line of a request says that was left for this run at the hub, under an ID, unless
// it has. It may be added later if it was not wrong.
func (f *feed) Arrive(id string, line []byte) (later bool, err error) {
	select {
	case <-f.begun:
	default: // and it may never: whoever ends the run does not wait for that
		return true, nil
	}
	if f.queue.LastDelivery() == id {
		return false, nil
	}
	a, err := control.ReadAddition(line)
	if err != nil {
		return false, err
	}
	if !a.Lines && !f.source.opts.TakesValues() { // whoever left it does not know the run
		a.Values, a.Command = nil, a.Values
	}
	a.Lines, a.Dir, a.Env = a.Lines && !f.source.opts.TakesValues(), "", nil
	err = f.add(&addition{Addition: a, numbered: func([]uint64) {}, door: id})
	refused, is := errors.AsType[*control.Refused](err)
	return err != nil && !(is && refused.Status == statusTrouble), err
}

func (f *feed) add(x *addition) error {
	if err := f.check(x.Addition); err != nil {
		return err
	}
	f.mu.Lock()
	f.arrived = append(f.arrived, x)
	f.mu.Unlock()
	f.turn.Lock()
	defer f.turn.Unlock()
	if !x.over {
		f.mu.Lock()
		list := f.arrived
		f.arrived = nil
		f.mu.Unlock()
		f.admit(list)
	}
	return x.err
}

// check refuses an addition that is not for this run.
func (f *feed) check(a *control.Addition) error {
	o := f.source.opts
	switch {
	case o.TakesValues() && (a.Lines || len(a.Command) > 0):
		return wrong("it takes values, not commands")
	case !o.TakesValues() && !a.Lines && len(a.Values) > 0:
		return wrong("it takes commands, not values")
	case len(a.Values) == 0 && len(a.Command) == 0:
		return wrong("there is nothing to add")
	}
	return nil
}

// admit admits the tasks of additions, each as a whole or not at all.
func (f *feed) admit(list []*addition) {
	now := f.mayAdd()
	room := now.Room
	for _, x := range list {
		var numbers []uint64
		number := func() uint64 {
			numbers = append(numbers, f.number())
			return numbers[len(numbers)-1]
		}
		if x.over, x.err = true, now.Err; x.err == nil {
			var err error
			if x.tasks, err = f.tasks(x, number); err != nil {
				x.err = wrong(err.Error())
			} else if n := len(x.tasks); n > room && (x.door == "" || room < f.source.opts.Serve.Feed.MaxQueued) {
				x.err = f.full(x)
			}
		}
		if x.err != nil {
			if len(numbers) > 0 {
				f.source.tasks.Names().RemoveAfter(numbers[0] - 1)
				f.do(task.Command{Op: task.Unused, IDs: numbers})
			}
			continue
		}
		room -= len(x.tasks)
	}
	f.commit(slices.DeleteFunc(list, func(x *addition) bool { return x.err != nil || len(x.tasks) == 0 }))
}

// wrong returns the error of an addition that this run never takes.
func wrong(text string) error { return &control.Refused{Text: text, Status: statusTrouble} }

// full returns why there is no room for the tasks of an addition. What came by a door was accepted before:
// it is taken whole once nothing waits, however much it is.
func (f *feed) full(x *addition) error {
	n, most := len(x.tasks), f.source.opts.Serve.Feed.MaxQueued
	if n > most && x.door == "" { // to wait might be in vain
		return wrong(fmt.Sprintf("%d tasks at once are more than --max-queued %d: add fewer", n, most))
	}
	return &control.Refused{Text: task.ErrFull.Error(), Status: statusBusy}
}

// commit records all tasks of additions and gives them to the run.
func (f *feed) commit(list []*addition) {
	if len(list) == 0 {
		return
	}
	var err error
	all, door := allOf(list), ""
	for _, x := range list {
		door = cmp.Or(door, x.door)
	}
	if f.queue != nil {
		err = f.queue.Accept(all, door)
	}
	if err == nil {
		for _, x := range list {
			var ids []uint64
			for _, t := range x.tasks {
				ids = append(ids, t.ID)
			}
			x.numbered(ids)
		}
	}
	if err == nil {
		err = f.offer(task.Command{Op: task.Add, N: 1, Tasks: all}).Err
		if f.queue != nil && err != nil { // the run has just begun to drain
			left := func(x *addition) bool { return x.door != "" } // the next run has it
			if list = slices.DeleteFunc(list, left); len(list) > 0 {
				err = cmp.Or(f.queue.Withdraw(allOf(list)), err)
			}
		}
	}
	for _, x := range list {
		x.err = cmp.Or(x.err, err)
	}
}

// allOf returns the tasks of additions.
func allOf(list []*addition) (all []*task.Task) {
	for _, x := range list {
		all = append(all, x.tasks...)
	}
	return all
}

// tasks makes the tasks of an addition.
func (f *feed) tasks(x *addition, number func() uint64) (list []*task.Task, err error) {
	if len(x.Command) > 0 {
		list = append(list, f.source.tasks.Command(convert[string](x.Command), number()))
	} else {
		f.source.tasks.SetValues(convert[string](x.Values))
		for {
			t, err := f.source.tasks.Next(number)
			if err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			list = append(list, t)
		}
	}
	for _, t := range list {
		if i := slices.IndexFunc(x.After, func(id uint64) bool { return id == 0 || id >= list[0].ID }); i >= 0 {
			return nil, fmt.Errorf("there is no task %d to come after", x.After[i])
		}
		if complete(t, x.Addition); x.Dir != "" && !f.source.opts.TakesValues() {
			t.Dir, t.Env, t.Bare = string(x.Dir), f.environment(x.Env), true
		}
	}
	return list, nil
}

// complete sets what an addition says of its tasks, whatever run they are for.
func complete(t *task.Task, x *control.Addition) {
	if terms := t.Terms(); len(x.After) > 0 || !x.At.IsZero() || x.Note != "" || x.Priority != nil {
		terms.After = slices.Concat(terms.After, x.After)
		terms.At, terms.Note = x.At, string(x.Note)
		if x.Priority != nil {
			terms.Priority = *x.Priority
		}
		t.Asked = &terms
	}
	t.Timeout = cmp.Or(t.Timeout, time.Duration(x.Timeout))
	if x.Key != nil {
		t.Key = string(*x.Key)
	}
}

// environment returns env, in the memory of an equal one if that is known.
func (f *feed) environment(env []task.Bytes) []string {
	list := withoutUnits(convert[string](env), f.source.opts.Queue.Caps)
	key := strings.Join(list, "\x00")
	if f.known[key] == nil {
		if f.bytes += len(key); f.bytes > mostEnvironments {
			clear(f.known)
			f.bytes = len(key)
		}
	}
	return shared(f.known, key, list)
}

// convert returns a list of strings as one of another type of them.
func convert[To, From ~string](list []From) []To {
	converted := make([]To, len(list))
	for i, s := range list {
		converted[i] = To(s)
	}
	return converted
}
