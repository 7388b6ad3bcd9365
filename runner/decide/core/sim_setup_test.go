package core

import (
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

// policy returns a policy by name; topics may follow after a colon.
func policy(text string) sched.Policy {
	name, topics, ok := strings.Cut(text, ":")
	var list sched.Topics
	if ok {
		var err error
		if list, err = sched.ParseTopics(topics); err != nil {
			panic(err)
		}
	}
	return sched.New(name, list)
}

func config(workers int) Config {
	return Config{
		Pool:  Pool{Workers: workers},
		Queue: Queue{Policy: policy("fifo"), Buffer: max(64, 2*workers)},
		Limit: Limit{Limit: task.Limit{KillAfter: 5 * time.Second}},
	}
}

// sendAhead returns the configuration of a run on other machines whose slots hold n attempts ahead.
func sendAhead(name string, n int) Config {
	cfg := remote(name)
	cfg.Pool.Ahead = n
	return cfg
}

func (s *sim) eventsOf(kind task.Kind) (ids []uint64) {
	for _, e := range s.events {
		if e.Kind == kind {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// feed returns the configuration of a run that gets its tasks from commands.
func feed(workers int) Config {
	cfg := config(workers)
	cfg.Feed, cfg.Queue.Terms = Feed{Open: true, Remember: true}, true
	return cfg
}

func numbered(ids ...uint64) (list []*task.Task) {
	for _, id := range ids {
		list = append(list, &task.Task{ID: id, Argv: []string{"true"}})
	}
	return list
}

// add adds tasks.
func (s *sim) add(tasks ...*task.Task) { s.ask(task.Command{Op: task.Add, Tasks: tasks}) }

// remote returns a configuration without slots of this machine.
func remote(name string) Config {
	cfg := config(0)
	cfg.Pool.Remote, cfg.Queue.Policy = true, policy(name)
	return cfg
}

// join adds n slots of a host with labels.
func (s *sim) join(n int, host string, labels ...string) []int {
	return s.ask(task.Command{Op: task.Join, N: n, Slot: task.Slot{Host: host, Labels: labels}}).Slots
}

func (s *sim) leave(slots []int) {
	for _, id := range slots {
		s.ask(task.Command{Op: task.Leave, N: id})
	}
}

// die makes the attempts of a host Lost.
func (s *sim) die(host string) {
	for i := range s.running {
		if r := &s.running[i]; r.Slot.Host == host {
			r.end, r.outcome = s.now, task.Lost
		}
	}
	for _, a := range slices.Clone(s.ahead) {
		if a.Slot.Host == host {
			s.endUnbegun(a.Task.ID)
		}
	}
	s.sleep(0)
}

// making returns a task of a key that makes files.
func making(id uint64, key string, targets ...string) *task.Task {
	t := &task.Task{ID: id, Key: key, Argv: []string{"true"}, Makes: &task.Making{}}
	for _, path := range targets {
		t.Makes.Targets = append(t.Makes.Targets, task.Target{Path: path})
	}
	return t
}

func skipped(t *task.Task) *task.Result { return &task.Result{Task: t, Outcome: task.Skipped} }
