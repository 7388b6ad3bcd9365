package wiring

import (
	"encoding/json"
	"errors"

	"crew/runner/task"
)

// Values are values for the workers of a queue, each of them a task.
type Values struct {
	URL, Queue string
	Key        string
	Each       func(func(value string) error) error // calls its argument with each
	Notice     func(string)
}

// addFar hands tasks over to the workers of a queue of an engine, and prints the run
// that they make up.
func (c *ctl) addFar() error {
	if c.far == nil {
		return becomeEngine(c.line)
	}
	v := Values{URL: c.URL, Queue: c.Queue, Notice: func(text string) { complain(c.errs, errors.New(text)) }}
	if c.Key != nil {
		v.Key = string(*c.Key)
	}
	v.Each = func(add func(string) error) error {
		return c.additions(func(batch []task.Bytes) error {
			for _, value := range batch {
				if err := add(string(value)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	run, err := c.far.Add(v)
	if err != nil {
		return err
	}
	if c.JSON {
		line, err := json.Marshal(map[string]string{"run": run})
		if err != nil {
			return err
		}
		return c.printJSON(line)
	}
	return c.print(run)
}
