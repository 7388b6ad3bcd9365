package wiring

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

const (
	batchTasks = 1000      // records of standard input in a request, at most
	batchBytes = 256 << 10 // of records in a request, unless a single record is larger
	maxRecord  = 2 << 20   // bytes of a record
	maxWaits   = 16        // connections at a time that wait for tasks
	maxPartial = 64 << 10  // bytes of an incomplete line that are held back

	startTimeout = 2 * time.Second // for a crew serve that has just started to make its socket
)

// adder carries out one crew ctl add.
type adder struct {
	// configuration

	*ctl // Adds holds what is common to all requests
	run  control.Hello

	// state, with --wait

	sem     chan struct{} // holds an item for each open connection
	wg      sync.WaitGroup
	mu      sync.Mutex // held for each reply
	ended   []task.Facts
	err     error             // the first error
	partial map[stream][]byte // incomplete lines of output
}

// stream identifies stdout or stderr of a task.
type stream struct {
	task uint64
	name string
}

// add adds tasks to a run: values or, if the run takes none, a command.
func (c *ctl) add() error {
	if c.URL != "" {
		return c.leaveAtHub()
	}
	if err := c.checkRunWord(); err != nil {
		return err
	}
	h, err := c.findFeed()
	if err != nil {
		return err
	}
	a := &adder{ctl: c, run: h, sem: make(chan struct{}, maxWaits), partial: map[stream][]byte{}}
	if !h.Values {
		if c.NoCommand != nil {
			return c.NoCommand
		}
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("the task would run in the working directory, which is gone: change to another one: %w", err)
		}
		c.Adds.Lines, c.Adds.Dir, c.Adds.Env = c.Stdin, task.Bytes(dir), convert[task.Bytes](os.Environ())
	}
	if c.Wait {
		a.printStart()
	}
	err = c.eachBatch(a.send)
	a.wg.Wait()
	if err = cmp.Or(err, a.err); err != nil {
		return err
	}
	if !c.Wait {
		a.printStart()
	}
	return a.finish()
}

// checkRunWord returns an error if the first word names a run: the user has probably left out --to.
func (c *ctl) checkRunWord() error {
	named := func(h control.Hello) bool { return h.Feeds && h.Name == c.Work[0] }
	if c.Run == "" && !c.Stdin && len(c.Work) > 1 && slices.ContainsFunc(control.List(), named) {
		return misuse(c.Work[0]+" is a run", "write crew ctl add --to "+c.Work[0]+" and then what to add")
	}
	return nil
}

// printStart prints when the tasks start, if --at was given.
func (a *adder) printStart() {
	if at := a.Adds.At; !at.IsZero() {
		a.notice("to start at " + at.Local().Format(time.DateTime+" -0700 (MST)"))
	}
}

// findFeed finds the run to add tasks to. A script may have started crew serve so recently that it has
// no socket yet, so findFeed keeps looking for startTimeout, or for --block if that is longer. It also does
// while the run does not answer.
func (c *ctl) findFeed() (h control.Hello, err error) {
	kernel.Poll(max(startTimeout, c.Block), func() bool {
		h, err = control.FindFeed(c.Run)
		return err == nil && (h.Feeds || c.Run != "")
	})
	return h, err
}

// eachBatch calls send with the words of the command line, or with batches of the records of standard
// input.
func (c *ctl) eachBatch(send func([]task.Bytes) error) error {
	if !c.Stdin {
		return send(convert[task.Bytes](c.Work))
	}
	delim := byte('\n')
	if c.Null {
		delim = 0
	}
	return batches(c.in, delim, send)
}

// send adds values, or the words of a command. With --block it splits the values into requests small
// enough for the queue to have room for them at some time. It returns when the run has accepted the
// tasks; with --wait, goroutines then wait for the tasks to end.
func (a *adder) send(words []task.Bytes) error {
	most, values := len(words), a.run.Values || a.Stdin
	if a.Block > 0 && values {
		most = max(a.run.MaxQueued/2, 1)
	}
	for part := range slices.Chunk(words, most) {
		all := a.Adds
		if values {
			all.Values = part
		} else {
			all.Command = part
		}
		if err := a.request(control.Request{Op: "add", Wait: a.Wait, Add: &all}); err != nil {
			return err
		}
	}
	return nil
}

// request sends a request and returns when the run has accepted it. With --wait, a goroutine then shows
// the output of the tasks.
func (a *adder) request(req control.Request) error {
	if !req.Wait {
		return a.deliver(req, a.printReply)
	}
	a.sem <- struct{}{}
	accepted, accept := context.WithCancel(context.Background())
	a.wg.Go(func() {
		err := a.deliver(req, func(line []byte, r *control.Reply) error {
			accept()
			a.mu.Lock()
			defer a.mu.Unlock()
			a.ended = append(a.ended, r.Ended...)
			switch {
			case a.JSON:
				return a.printJSON(line)
			case a.Stdin || len(req.Add.Values) > 1:
				return a.writeLines(r)
			}
			return a.writeOutput(r)
		})
		a.mu.Lock()
		a.err = cmp.Or(a.err, err)
		a.mu.Unlock()
		accept()
		<-a.sem
	})
	<-accepted.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// deliver sends a request to add tasks. If the run is full, or ends without having accepted the tasks, it
// tries again until --block has passed, also with the crew serve that takes the run's place.
func (a *adder) deliver(req control.Request, take func([]byte, *control.Reply) error) error {
	run, end := a.run, time.Now().Add(a.Block)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		last, taken := !time.Now().Before(end), false
		err := a.ctl.request(run, req, func(line []byte, r *control.Reply) error {
			if taken = taken || len(r.Tasks) > 0; !last && !taken && (r.Status == statusBusy || r.Over) {
				return nil
			}
			return take(line, r)
		})
		_, gone := errors.AsType[*control.Unreachable](err)
		refused, ok := errors.AsType[*control.Refused](err)
		switch {
		case taken || !gone && !(ok && (refused.Status == statusBusy || refused.Over)):
			return err
		case last:
			return failure(statusBusy, err.Error())
		}
		time.Sleep(wait)
		if h, err := control.FindFeed(a.Run); err == nil && h.Values == run.Values && h.Name == run.Name {
			run = h
		}
	}
}

// writeLines writes the complete lines of a task's output, and holds back the rest, so that the lines of
// tasks that write at the same time do not mix.
func (a *adder) writeLines(r *control.Reply) error {
	from := stream{r.Task, r.Stream}
	data := append(a.partial[from], r.Data...)
	end := bytes.LastIndexByte(data, '\n') + 1
	if len(data)-end > maxPartial {
		end = len(data)
	}
	if a.partial[from] = data[end:]; end == len(data) {
		delete(a.partial, from)
	}
	return a.writeOutput(&control.Reply{Stream: r.Stream, Data: data[:end]})
}

// batches calls send with batches of the records of r. While it has some records, it does not wait for
// more. It reads at most one buffer ahead.
func batches(r io.Reader, delim byte, send func([]task.Bytes) error) error {
	in := bufio.NewReaderSize(r, maxRecord+1)
	var batch []task.Bytes
	size := 0
	for {
		record, err := in.ReadSlice(delim)
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("a record of standard input is longer than %s: put it into a file and add the name of the file", task.Size(maxRecord))
		}
		if err == nil || len(record) > 0 {
			batch = append(batch, task.Bytes(strings.TrimSuffix(string(record), string(rune(delim)))))
			size += len(record)
		}
		ahead, _ := in.Peek(in.Buffered())
		full := size >= batchBytes || len(batch) == batchTasks
		if len(batch) > 0 && (full || err != nil || bytes.IndexByte(ahead, delim) < 0) {
			if err := send(batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// finish writes the incomplete last lines, in the order of the tasks, and returns the exit status of the
// tasks as an error.
func (a *adder) finish() error {
	inOrder := func(x, y stream) int { return cmp.Or(cmp.Compare(x.task, y.task), cmp.Compare(y.name, x.name)) }
	for _, from := range slices.SortedFunc(maps.Keys(a.partial), inOrder) { // stdout first
		if err := a.writeOutput(&control.Reply{Stream: from.name, Data: a.partial[from]}); err != nil {
			return err
		}
	}
	return a.statusOf(a.ended)
}

// statusOf returns an error with the exit status for ended tasks, or nil if all succeeded. It says why
// tasks did not start, which their output cannot show.
func (c *ctl) statusOf(ended []task.Facts) error {
	status := statusOK
	for i := range ended {
		r := ended[i].Result(nil)
		if s := taskStatus(r); s != statusOK {
			status = s
		}
		why := ""
		switch r.Outcome {
		case task.StartFailed:
			why = r.Verdict()
		case task.NotRun:
			if why = "not started: the run ended first"; r.Err != nil {
				why = r.Verdict()
			}
		}
		if why != "" && !c.JSON {
			c.notice(fmt.Sprintf("task %d: %s", ended[i].Task, why))
		}
	}
	switch {
	case status == statusOK:
		return nil
	case len(ended) > 1:
		status = statusFailed
	}
	return failure(status, "")
}

// leaveAtHub leaves the tasks at a hub, for a crew serve that may not run yet.
func (c *ctl) leaveAtHub() error {
	return c.far.Leave(&Call{Options: &cli.Options{Ctl: *c.Ctl}, Notice: c.notice}, func(leave func([]byte) error) error {
		return c.eachBatch(func(words []task.Bytes) error {
			all := c.Adds
			all.Values, all.Lines = words, c.Stdin
			line, err := json.Marshal(control.Request{V: control.Version, Op: "add", Add: &all})
			if err == nil {
				err = leave(line)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				return failure(statusBusy, "the tasks were not accepted in time: --block DUR waits longer")
			}
			return err
		})
	})
}
