package cli

import (
	"encoding/json"
	"errors"
	"strings"

	"crew/runner/task"
)

// enginePrefix begins the RUN of crew ctl add --to that is a queue of an engine.
const enginePrefix = "engine:"

// Values are values for the workers of a queue, each of them a task.
type Values struct {
	URL, Queue string
	Key        string
	Each       func(func(value string) error) error // calls its argument with each
	Notice     func(string)
}

// splitEngine splits engine:URL[/QUEUE]. URL can have slashes behind :// and, as a
// file, before .json.
func splitEngine(text string) (url, queue string, err error) {
	rest := strings.TrimPrefix(text, enginePrefix)
	from := 0
	if i := strings.LastIndex(rest, "://"); i >= 0 {
		from = i + len("://")
	} else if i := strings.LastIndex(rest, ".json"); i >= 0 {
		from = i
	}
	host, queue, found := strings.Cut(rest[from:], "/")
	if !found {
		queue = defaults().Engine.Queue
	}
	_, err = parseQueue(queue)
	return rest[:from] + host, queue, err
}

// addFar hands tasks over to the workers of a queue of an engine, and prints the run
// that they make up.
func (c *ctl) addFar() error {
	const way = "crew engine attach RUN shows what became of the tasks"
	switch {
	case c.wait:
		return &usageError{"--wait and an engine's queue do not go together", way + ": drop --wait"}
	case len(c.after) > 0:
		return &usageError{"--after and an engine's queue do not go together", "its tasks start as workers are free: drop --after"}
	}
	url, queue, err := splitEngine(c.run)
	if err != nil {
		return &usageError{"bad queue in --to " + c.run, err.Error()}
	}
	if c.far == nil {
		return becomeEngine(c.line)
	}
	v := Values{URL: url, Queue: queue, Notice: func(text string) { complain(c.errs, errors.New(text)) }}
	if c.key != nil {
		v.Key = string(*c.key)
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
	if c.json {
		line, err := json.Marshal(map[string]string{"run": run})
		if err != nil {
			return err
		}
		return c.printJSON(line)
	}
	return c.print(run)
}
