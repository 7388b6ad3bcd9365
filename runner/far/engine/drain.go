package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"

	"crew/runner/decide/task"
	"crew/runner/front/wiring"
)

// drain tells workers to end once their attempts have ended, and returns once they have confirmed.
func (s *session) drain(c *wiring.Call) error {
	st, err := s.queryStatus(context.Background(), "")
	if err != nil {
		return fmt.Errorf("look for workers: %w", err)
	}
	list, err := st.workers(c.Ctl.Work, c.Ctl.Queue)
	if err != nil {
		return err
	}
	refusals := make([]string, len(list))
	var asked sync.WaitGroup
	for i, w := range list {
		asked.Go(func() {
			a, err := s.askRetrying(context.Background(), orderSubject(w.Queue, w.ID, s.user), Order{Op: opDrain, By: me()}, false)
			if err != nil {
				a.Err = "it does not answer"
			}
			if a.Err != "" {
				refusals[i] = "worker " + w.ID + ": " + a.Err
			}
		})
	}
	asked.Wait()
	refusals = slices.DeleteFunc(refusals, func(text string) bool { return text == "" })
	err = write(c, task.Count(int64(len(list)-len(refusals)), "worker")+" draining\n")
	if len(refusals) > 0 {
		err = errors.New(strings.Join(refusals, "; "))
	}
	return err
}

// workers returns the workers of a queue, or of all queues if that is "". If names is not empty, it
// returns only workers whose ID or host is in names.
func (st *engineStatus) workers(names []string, queue string) (list []Presence, err error) {
	of := ""
	if queue != "" {
		of = " of queue " + queue
	}
	found := map[string]bool{}
	for _, w := range st.Workers {
		if (queue == "" || w.Queue == queue) && (len(names) == 0 || slices.Contains(names, w.ID) || slices.Contains(names, w.Host)) {
			found[w.ID], found[w.Host] = true, true
			list = append(list, w)
		}
	}
	for _, name := range names {
		if !found[name] {
			return nil, fmt.Errorf("no worker%s is called %s: crew engine status lists them", of, task.Printable(name))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no worker%s is there", of)
	}
	return list, nil
}

// me returns the user and the machine, as in "ann on web1".
func me() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + " on " + hostName("")
}
