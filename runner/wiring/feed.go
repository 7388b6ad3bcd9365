package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"crew/runner/control"
	"crew/runner/journal"
	"crew/runner/task"
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
	begin  func()        // unlocks turn for the first time

	// additions that nobody has admitted yet, in order

	mu      sync.Mutex
	arrived []*addition

	// state, under the lock turn, which is held at first, until the tasks of an
	// earlier crew serve are admitted

	turn  sync.Mutex
	last  uint64              // number of the latest task
	known map[string][]string // environments by all they hold
	bytes int                 // their size
}

// addition is a request to add tasks.
type addition struct {
	*control.Addition
	numbered func(ids []uint64)
	tasks    []*task.Task
	over     bool
	err      error // if over
}

// newFeed returns the feed of a run whose door is do. goesOn is told how many tasks an
// earlier crew serve has left.
func newFeed(s *source, queue *journal.Journal, do func(task.Command) task.Reply, goesOn func(left int)) *feed {
	f := &feed{
		source: s, queue: queue, do: do, goesOn: goesOn,
		over: make(chan struct{}), known: map[string][]string{},
	}
	f.turn.Lock()
	f.begin = sync.OnceFunc(f.turn.Unlock)
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

// mayAdd asks the run whether it takes tasks, and how many.
func (f *feed) mayAdd() task.Reply {
	select {
	case <-f.over: // it may not even have begun
		return task.Reply{Err: errors.New("it is over")}
	default:
		return f.do(task.Command{Op: task.Add})
	}
}

// Next admits the tasks of an earlier crew serve, and blocks until the run is over.
func (f *feed) Next(func() uint64) (*task.Task, error) {
	if err := f.restore(); err != nil {
		return nil, err
	}
	<-f.over
	return nil, io.EOF
}

// restore admits the tasks that the journal holds, except those of which nothing is
// left to know. If the run drains already, they stay there.
func (f *feed) restore() error {
	defer f.begin()
	if f.queue == nil {
		f.mayAdd() // from now on it can be idle
		return nil
	}
	f.last = f.queue.Last()
	var list []*task.Task
	left := 0
	for t, err := range f.queue.Queue() {
		switch {
		case err != nil:
			return err
		case t.Done == nil:
			left++
		case t.Done.Outcome.Succeeded() && t.Done.Earlier && t.Done.Logged:
			continue
		}
		list = append(list, t)
	}
	f.do(task.Command{Op: task.Add, N: int(f.last), Tasks: list})
	f.goesOn(left)
	return nil
}

// Add is the Feed of the control server. Once it returns nil, the tasks are in the journal, if
// there is one, and run even if this run ends before.
func (f *feed) Add(a *control.Addition, numbered func(ids []uint64)) error {
	if err := f.check(a); err != nil {
		return err
	}
	x := &addition{Addition: a, numbered: numbered}
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
		return errors.New("it takes values, not commands")
	case !o.TakesValues() && !a.Lines && len(a.Values) > 0:
		return errors.New("it takes commands, not values")
	case len(a.Values) == 0 && len(a.Command) == 0:
		return errors.New("there is nothing to add")
	}
	return nil
}

// admit admits the tasks of additions, each as a whole or not at all.
func (f *feed) admit(list []*addition) {
	now := f.mayAdd()
	var all []*task.Task
	for _, x := range list {
		last := f.last
		x.over, x.err = true, now.Err
		if x.err == nil {
			x.tasks, x.err = f.tasks(x)
		}
		if x.err == nil && len(x.tasks) > now.Room-len(all) {
			x.err = f.full(len(x.tasks))
		}
		if x.err != nil {
			f.last = last
			continue
		}
		all = append(all, x.tasks...)
	}
	f.commit(slices.DeleteFunc(list, func(x *addition) bool { return x.err != nil }), all)
}

// full returns why there is no room for n tasks.
func (f *feed) full(n int) error {
	if most := f.source.opts.Serve.MaxQueued; n > most { // to wait might be in vain
		return fmt.Errorf("%d tasks at once are more than --max-queued %d: add fewer", n, most)
	}
	return task.ErrFull
}

// commit records all tasks of additions and gives them to the run.
func (f *feed) commit(list []*addition, all []*task.Task) {
	if len(all) == 0 {
		return
	}
	var err error
	if f.queue != nil {
		err = f.queue.Accept(all)
	}
	if err == nil {
		for _, x := range list {
			var ids []uint64
			for _, t := range x.tasks {
				ids = append(ids, t.ID)
			}
			x.numbered(ids)
		}
		err = f.do(task.Command{Op: task.Add, N: 1, Tasks: all}).Err
		if f.queue != nil && err != nil { // the run has just begun to drain
			err = cmp.Or(f.queue.Withdraw(all), err)
		}
	}
	for _, x := range list {
		x.err = err
	}
}

// tasks makes the tasks of an addition.
func (f *feed) tasks(x *addition) (list []*task.Task, err error) {
	for _, id := range x.After {
		if id == 0 || id > f.last {
			return nil, fmt.Errorf("there is no task %d to come after", id)
		}
	}
	if len(x.Command) > 0 {
		list = append(list, f.source.tasks.Command(convert[string](x.Command), f.number()))
	} else {
		f.source.tasks.Give(convert[string](x.Values))
		for {
			t, err := f.source.tasks.Next(f.number)
			if err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			list = append(list, t)
		}
	}
	for _, t := range list {
		if len(x.After) > 0 {
			t.Asked = &task.Terms{After: x.After}
		}
		if x.Key != nil {
			t.Key = string(*x.Key)
		}
		if x.Dir != "" && !f.source.opts.TakesValues() {
			t.Dir, t.Env, t.Bare = string(x.Dir), f.environment(x.Env), true
		}
	}
	return list, nil
}

func (f *feed) number() uint64 {
	f.last++
	return f.last
}

// environment returns env, in the memory of an equal one if that is known.
func (f *feed) environment(env []task.Bytes) []string {
	list := convert[string](env)
	key := strings.Join(list, "\x00")
	if known, ok := f.known[key]; ok {
		return known
	}
	if f.bytes += len(key); f.bytes > mostEnvironments {
		clear(f.known)
		f.bytes = len(key)
	}
	f.known[key] = list
	return list
}

// Do carries out a command. A task that has ended is retried as another one, which is
// recorded like those that are added.
func (f *feed) Do(cmd task.Command) (reply task.Reply) {
	if cmd.Op != task.Retry {
		return f.do(cmd)
	}
	f.turn.Lock()
	defer f.turn.Unlock()
	for _, w := range f.do(task.Command{Op: task.Explain, IDs: cmd.IDs}).Wheres {
		var ids []uint64
		var err error
		if w.Task != nil && w.Outcome != 0 {
			ids, err = f.again(w)
		} else {
			r := f.do(task.Command{Op: task.Retry, IDs: []uint64{w.ID}})
			ids, err = r.IDs, r.Err
		}
		reply.IDs = append(reply.IDs, ids...)
		reply.Err = cmp.Or(reply.Err, err)
	}
	return reply
}

// again adds a task that has ended once more.
func (f *feed) again(w task.Where) (ids []uint64, err error) {
	if err := f.mayAdd().Err; err != nil {
		return nil, err
	}
	t := w.Task.Again(f.number(), w.Attempt)
	t.Identity = [16]byte{}
	x := &addition{tasks: []*task.Task{t}, numbered: func(told []uint64) { ids = told }}
	f.commit([]*addition{x}, x.tasks)
	return ids, x.err
}

// convert returns a list of strings as one of another type of them.
func convert[To, From ~string](list []From) []To {
	converted := make([]To, len(list))
	for i, s := range list {
		converted[i] = To(s)
	}
	return converted
}
