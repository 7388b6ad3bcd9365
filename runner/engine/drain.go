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

	"crew/runner/task"
	"crew/runner/wiring"
)

// drain has workers end in an orderly way, and returns once they have said that they will.
func (s *session) drain(c *wiring.EngineCall) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*answerWait)
	defer cancel()
	st, err := s.look(ctx)
	if err != nil {
		return fmt.Errorf("look for workers: %w", notReady(err))
	}
	list, err := st.workers(c.Workers, c.Queue)
	if err != nil {
		return err
	}
	var asked sync.WaitGroup
	failures := make([]string, len(list))
	for i, w := range list {
		asked.Go(func() {
			a, err := s.ask(ctx, orderSubject(w.Queue, w.ID), Order{Op: opDrain, By: me()})
			if err != nil {
				a.Err = "it does not answer"
			}
			if a.Err != "" {
				failures[i] = "worker " + w.ID + ": " + a.Err
			}
		})
	}
	asked.Wait()
	failures = slices.DeleteFunc(failures, func(text string) bool { return text == "" })
	err = say(c, task.Count(int64(len(list)-len(failures)), "worker")+" draining\n")
	if len(failures) > 0 {
		return errors.New(strings.Join(failures, "; "))
	}
	return err
}

// workers returns the workers of a queue, or of all, that are there: those with an ID or a
// name among names or, without any, all.
func (st *engineStatus) workers(names []string, queue string) ([]workerStatus, error) {
	of := ""
	if queue != "" {
		of = " of queue " + queue
	}
	list := slices.DeleteFunc(st.Workers, func(w workerStatus) bool {
		return w.State == lostState || queue != "" && w.Queue != queue
	})
	for _, name := range names {
		if !slices.ContainsFunc(list, func(w workerStatus) bool { return w.ID == name || w.Host == name }) {
			return nil, fmt.Errorf("no worker%s is called %s: crew engine status lists them", of, task.Printable(name))
		}
	}
	if len(names) == 0 && len(list) == 0 {
		return nil, fmt.Errorf("no worker%s is there", of)
	}
	return slices.DeleteFunc(list, func(w workerStatus) bool {
		return len(names) > 0 && !slices.Contains(names, w.ID) && !slices.Contains(names, w.Host)
	}), nil
}

// me says who gives an order: a user on a machine.
func me() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + " on " + hostName("")
}
