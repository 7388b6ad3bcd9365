package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/show/sink"
	"crew/runner/steer/control"
)

// ctl carries out a command of crew ctl.
type ctl struct {
	*cli.Ctl
	far           *Far // nil in crew
	in, out, errs *os.File
}

// candidates returns the words that complete the name of a run, or the number of a task of x.Run.
func candidates(x *cli.Completion) (list []cli.Candidate) {
	if x.Runs {
		for _, h := range control.List() {
			list = append(list, cli.Candidate{Word: cmp.Or(h.Name, strconv.Itoa(h.PID)), Text: task.Printable(string(h.Command))})
		}
	}
	if h, err := control.Find(x.Run); x.Tasks && err == nil {
		_, _ = control.Ask(context.Background(), h, control.Request{Op: "explain"}, func(_ []byte, r *control.Reply) error {
			for _, w := range r.Wheres {
				name, _ := w.Name()
				list = append(list, cli.Candidate{Word: strconv.FormatUint(w.Task, 10), Text: w.State + " " + w.Why() + ": " + name})
			}
			return nil
		})
	}
	return list
}

// do carries out the verb, which is c.Op.
func (c *ctl) do() error {
	switch c.Op {
	case "ls":
		return c.ls()
	case "drain", "stop":
		if c.All {
			return c.endAll(control.List())
		}
	case "top":
		return c.top()
	case "add":
		return c.add()
	}
	return c.call()
}

// endAll prints the runs and then drains or stops them.
func (c *ctl) endAll(runs []control.Hello) (err error) {
	if !c.JSON {
		err = c.printCut(control.Runs(runs, sink.Columns(c.out)))
	}
	for _, h := range runs {
		if c.JSON {
			err = errors.Join(err, c.printHello(&h))
		}
		err = errors.Join(err, c.request(h, c.Request, c.printReply))
	}
	return err
}

// call sends the request to the run and prints the replies. Its error carries the exit status for the
// results in the replies.
func (c *ctl) call() error {
	words, err := relayCommand(c.Run)
	if err != nil {
		return err
	}
	h, err := control.Find(c.Run, words...)
	if err != nil {
		return err
	}
	var ended []task.Facts
	err = c.request(h, c.Request, func(line []byte, r *control.Reply) error {
		ended = append(ended, r.Ended...)
		return c.printReply(line, r)
	})
	if err != nil {
		return err
	}
	return c.statusOf(ended)
}

// printReply prints a reply as the verb wants it.
func (c *ctl) printReply(line []byte, r *control.Reply) error {
	switch {
	case c.JSON:
		return c.printJSON(line)
	case r.End && r.Error != "" && len(r.Tasks) == 0: // the caller reports the error
	case r.Cut > 0 && r.Stream != "":
		c.notice(fmt.Sprintf("task %d: the first %s of its %s are not kept: --state DIR keeps all", r.Task, task.Count(r.Cut, "byte"), r.Stream))
	case c.Op == "retry", c.Op == "add":
		var lines []string
		for _, id := range r.Tasks {
			lines = append(lines, strconv.FormatUint(id, 10))
		}
		return c.print(lines...)
	case c.Op == "log":
		return c.writeOutput(r)
	case c.Op == "status" && r.Run != nil:
		return c.printCut(r.Run.Lines(sink.Columns(c.out)))
	case c.Op == "explain":
		if r.Hint != "" {
			c.notice(r.Hint)
		}
		return c.printCut(control.Explain(r.Wheres, sink.Columns(c.out)))
	case c.Op == "watch" && r.Event != nil:
		return c.print(r.Line())
	case len(r.Tasks) > 0:
		return c.print(task.Count(int64(len(r.Tasks)), "task") + " " + pastTense[c.Op])
	case c.Op == "cancel" && r.End:
		return c.print("0 tasks cancelled")
	}
	return nil
}

// pastTense holds the words for tasks that a verb has changed.
var pastTense = map[string]string{
	"cancel": "cancelled", "signal": "signalled", "send": "messaged", "hold": "held", "release": "released", "move": "moved",
}

// request sends a request to a run on a new connection, and calls take for each reply.
func (c *ctl) request(h control.Hello, req control.Request, take func([]byte, *control.Reply) error) error {
	ctx := context.Background()
	if c.Timeout > 0 {
		limited, end := context.WithTimeout(ctx, c.Timeout)
		defer end()
		ctx = limited
	}
	if errors.Is(h.Err, os.ErrDeadlineExceeded) && control.Waits(req.Op) {
		printError(c.errs, h.Err)
	}
	_, err := control.Ask(ctx, h, req, take)
	if errors.Is(err, context.DeadlineExceeded) {
		return failure(statusTimeout, "not all tasks ended within "+c.Timeout.String())
	}
	refused, ok := errors.AsType[*control.Refused](err)
	if !ok {
		return err
	}
	text := refusalText(h, refused.Text)
	if c.Op == "add" && refused.Status == statusBusy && c.Block == 0 {
		text += ": --block DUR waits for room, or for the next crew serve"
	}
	refused.Text = text
	return refused
}

// notice prints a message on stderr.
func (c *ctl) notice(text string) { printError(c.errs, errors.New(text)) }

func (c *ctl) printJSON(line []byte) error { return printText(c.out, string(line)+"\n") }

// refusalText returns a message that a run refused a request, and why.
func refusalText(h control.Hello, why string) string {
	run := "run " + h.Label()
	if rest, ok := strings.CutPrefix(why, "this run "); ok {
		return run + " " + rest
	}
	return run + ": " + why
}

// print prints lines on stdout, with unprintable characters escaped.
func (c *ctl) print(lines ...string) error {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(task.Printable(l) + "\n")
	}
	return printText(c.out, b.String())
}

func (c *ctl) ls() error {
	runs := control.List()
	if !c.JSON {
		return c.printCut(control.Runs(runs, sink.Columns(c.out)))
	}
	for _, h := range runs {
		if err := c.printHello(&h); err != nil {
			return err
		}
	}
	return nil
}

// printHello prints the description of a run as JSON.
func (c *ctl) printHello(h *control.Hello) error {
	text, _ := json.Marshal(h)
	return c.printJSON(text)
}

// printCut prints lines on stdout, cut to the width of the terminal.
func (c *ctl) printCut(lines []string) error {
	columns := sink.Columns(c.out)
	for i := range lines {
		lines[i] = task.Cut(task.Printable(lines[i]), columns)
	}
	return c.print(lines...)
}

// writeOutput writes a piece of a task's output to stdout or stderr.
func (c *ctl) writeOutput(r *control.Reply) error {
	switch r.Stream {
	case "stdout":
		return printText(c.out, string(r.Data))
	case "stderr":
		return printText(c.errs, string(r.Data))
	}
	return nil
}
