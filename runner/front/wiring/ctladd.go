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
	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

const (
	batchTasks = 1000      // records of standard input in a request, at most
	batchBytes = 256 << 10 // their size, unless one is larger
	mostRecord = 2 << 20   // bytes of a record
	mostWaits  = 16        // connections at once, for requests that wait for their tasks
	mostPart   = 64 << 10  // bytes of a line that wait for its end

	startTime = 2 * time.Second // for a crew serve to make its socket
)

// adder carries out one crew ctl add.
type adder struct {
	// configuration

	ctl *ctl
	run control.Hello
	all control.Addition // without values

	// state of the requests that wait for their tasks

	places chan struct{} // has an item for each
	wg     sync.WaitGroup
	mu     sync.Mutex // held for each reply
	ended  []task.Facts
	err    error             // the first one
	parts  map[stream][]byte // what tasks have written of lines that they have not ended
}

// stream is stdout or stderr of a task.
type stream struct {
	task uint64
	name string
}

// add gives tasks to a run: values or, if it takes none, a command.
func (c *ctl) add() error {
	if c.URL != "" {
		return c.addFar()
	}
	if err := c.mayAdd(); err != nil {
		return err
	}
	h, err := c.findFeed()
	if err != nil {
		return err
	}
	c.Adds.Key = c.Key
	a := &adder{ctl: c, run: h, all: c.Adds, places: make(chan struct{}, mostWaits), parts: map[stream][]byte{}}
	if !h.Values {
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("the working directory, in which the task would run, is not there: change to another: %w", err)
		}
		a.all.Lines, a.all.Dir, a.all.Env = c.Stdin, task.Bytes(dir), convert[task.Bytes](os.Environ())
	}
	if c.Wait {
		a.sayTime()
	}
	err = c.additions(a.send)
	a.wg.Wait()
	switch {
	case err != nil:
		return err
	case a.err != nil:
		return a.err
	case !c.Wait:
		a.sayTime()
	}
	return a.status()
}

// mayAdd returns an error if the first word is a run, to which the others were meant to be added.
func (c *ctl) mayAdd() error {
	if c.Run != "" || c.Stdin || len(c.Work) < 2 {
		return nil
	}
	named := func(h control.Hello) bool { return h.Feeds && h.Name == c.Work[0] }
	if !slices.ContainsFunc(control.List(), named) {
		return nil
	}
	return &cli.UsageError{Msg: c.Work[0] + " is a run", Hint: "write crew ctl add --to " + c.Work[0] + " and then what to add"}
}

// sayTime says when the tasks start, if that is given.
func (a *adder) sayTime() {
	if at := a.all.At; !at.IsZero() {
		complain(a.ctl.errs, errors.New("to start at "+at.Local().Format(time.DateTime+" -0700 (MST)")))
	}
}

// findFeed finds the run to add tasks to. A script that has just started crew serve
// may be here before its socket is, so findFeed looks again until startTime has passed,
// or --block.
func (c *ctl) findFeed() (h control.Hello, err error) {
	for end := time.Now().Add(max(startTime, c.Block)); ; time.Sleep(20 * time.Millisecond) {
		h, err = control.FindFeed(c.Run)
		if err == nil && (h.Feeds || c.Run != "") || time.Now().After(end) {
			return h, err
		}
	}
}

// additions calls send with the words to add, or with the records of standard input,
// several at a time.
func (c *ctl) additions(send func([]task.Bytes) error) error {
	if !c.Stdin {
		return send(convert[task.Bytes](c.Work))
	}
	delim := byte('\n')
	if c.Null {
		delim = 0
	}
	return batches(c.in, delim, send)
}

// send adds values, or the words of a command: in parts for which there will be room, if the tasks
// may wait for some. It returns when the run has accepted them; with --wait, goroutines then wait for
// them.
func (a *adder) send(words []task.Bytes) error {
	most, values := len(words), a.run.Values || a.ctl.Stdin
	if a.ctl.Block > 0 && values {
		most = max(a.run.Most/2, 1)
	}
	for part := range slices.Chunk(words, most) {
		all := a.all
		if values {
			all.Values = part
		} else {
			all.Command = part
		}
		if err := a.request(control.Request{Op: "add", Wait: a.ctl.Wait, Add: &all}); err != nil {
			return err
		}
	}
	return nil
}

// request makes a request and, with --wait, shows what the tasks write once it has returned.
func (a *adder) request(req control.Request) error {
	if !req.Wait {
		return a.deliver(req, a.ctl.take)
	}
	a.places <- struct{}{}
	accepted := make(chan struct{})
	accept := sync.OnceFunc(func() { close(accepted) })
	a.wg.Go(func() {
		err := a.deliver(req, func(line []byte, r *control.Reply) error {
			accept()
			a.mu.Lock()
			defer a.mu.Unlock()
			a.ended = append(a.ended, r.Ended...)
			switch {
			case a.ctl.JSON:
				return a.ctl.printJSON(line)
			case a.ctl.Stdin || len(req.Add.Values) > 1:
				return a.output(r)
			}
			return a.ctl.output(r)
		})
		a.mu.Lock()
		a.err = cmp.Or(a.err, err)
		a.mu.Unlock()
		accept()
		<-a.places
	})
	<-accepted
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// deliver makes a request to add tasks. If the run is full, or ends without having taken them, it
// tries again until --block has passed, also with another run that has taken its place.
func (a *adder) deliver(req control.Request, take func([]byte, *control.Reply) error) error {
	run, end := a.run, time.Now().Add(a.ctl.Block)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		last, taken := !time.Now().Before(end), false
		err := a.ctl.request(run, req, func(line []byte, r *control.Reply) error {
			if taken = taken || len(r.Tasks) > 0; !last && !taken && (r.Status == statusBusy || r.Over) {
				return nil
			}
			return take(line, r)
		})
		_, gone := errors.AsType[*control.Unreached](err)
		refused, ok := errors.AsType[*control.Refused](err)
		switch {
		case taken || !gone && !(ok && (refused.Status == statusBusy || refused.Over)):
			return err
		case last:
			return &failure{err.Error(), statusBusy}
		}
		time.Sleep(wait)
		if h, err := control.FindFeed(a.ctl.Run); err == nil && h.Values == run.Values && h.Name == run.Name {
			run = h
		}
	}
}

// output writes what a task has written, up to the end of a line, so that tasks that
// write at the same time do not mix within a line.
func (a *adder) output(r *control.Reply) error {
	from := stream{r.Task, r.Stream}
	data := append(a.parts[from], r.Data...)
	end := bytes.LastIndexByte(data, '\n') + 1
	if len(data)-end > mostPart {
		end = len(data)
	}
	if a.parts[from] = data[end:]; end == len(data) {
		delete(a.parts, from)
	}
	return a.ctl.output(&control.Reply{Stream: r.Stream, Data: data[:end]})
}

// batches calls send with the records of r, several at a time. It does not wait for
// more while it has some, and reads no more than a buffer ahead.
func batches(r io.Reader, delim byte, send func([]task.Bytes) error) error {
	in := bufio.NewReaderSize(r, mostRecord+1)
	var batch []task.Bytes
	size := 0
	for {
		record, err := in.ReadSlice(delim)
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("a record of standard input is longer than %s: put it into a file and add its name", task.Size(mostRecord))
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

// status writes the lines that tasks have not ended, by task, and returns how the tasks ended
// as an exit status.
func (a *adder) status() error {
	inOrder := func(x, y stream) int { return cmp.Or(cmp.Compare(x.task, y.task), cmp.Compare(y.name, x.name)) }
	for _, from := range slices.SortedFunc(maps.Keys(a.parts), inOrder) { // stdout first
		if err := a.ctl.output(&control.Reply{Stream: from.name, Data: a.parts[from]}); err != nil {
			return err
		}
	}
	return a.ctl.statusOf(a.ended)
}

// statusOf returns how tasks ended as an exit status, which is nil if all succeeded. It
// says what the output cannot tell.
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
			if why = "not started: the run ended before"; r.Err != nil {
				why = r.Verdict()
			}
		}
		if why != "" && !c.JSON {
			complain(c.errs, fmt.Errorf("task %d: %s", ended[i].Task, why))
		}
	}
	switch {
	case status == statusOK:
		return nil
	case len(ended) > 1:
		status = statusFailed
	}
	return &failure{status: status}
}

// addFar leaves what to add at a hub, for a crew serve that may not be there yet.
func (c *ctl) addFar() error {
	if c.far == nil {
		return becomeEngine(c.line)
	}
	c.Adds.Key = c.Key
	notice := func(text string) { complain(c.errs, errors.New(text)) }
	leave, end, err := c.far.Leave(Leaving{URL: c.URL, Name: c.Run, Wait: c.Block, Notice: notice})
	if err != nil {
		return err
	}
	defer end()
	return c.additions(func(words []task.Bytes) error {
		all := c.Adds
		all.Values, all.Lines = words, c.Stdin
		line, err := json.Marshal(control.Request{V: control.Version, Op: "add", Add: &all})
		if err == nil {
			err = leave(line)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return &failure{"the hub has not taken what to add: --block DUR waits longer for it", statusBusy}
		}
		return err
	})
}
