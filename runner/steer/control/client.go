package control

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
)

const (
	// helloTimeout is how long a client waits for the hello of a run.
	helloTimeout = 2 * time.Second
	// answerTimeout is how long a client waits for the answer to a request that is carried out at once.
	answerTimeout = 20 * time.Second
)

// List returns the user's live runs, the oldest first, and removes the sockets of dead runs. A run that does
// not answer has the state Silent.
func List() []Hello { return listNamed("") }

// listNamed lists the runs with a process ID or a name, or all runs if run is "".
func listNamed(run string) (list []Hello) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, dir := range dirs() {
		for _, path := range sockets(dir) {
			if pid, name := parseName(path); run != "" && run != name && run != strconv.Itoa(pid) {
				continue
			}
			wg.Go(func() {
				if h := askHello(path); h != nil {
					mu.Lock()
					defer mu.Unlock()
					list = append(list, *h)
				}
			})
		}
	}
	wg.Wait()
	slices.SortFunc(list, func(a, b Hello) int { return cmp.Or(a.Since.Compare(b.Since), a.PID-b.PID) })
	return list
}

// askHello returns the hello of the run at path, or nil if there is no run.
func askHello(path string) *Hello {
	silent := Hello{State: Silent, path: path}
	silent.PID, silent.Name = parseName(path)
	last, err := Ask(context.Background(), silent, Request{Op: "hello"}, nil)
	refused, crowded := errors.AsType[*Refused](err) // the run has no room for one more client
	switch silent.Err = err; {
	case last != nil && last.Hello != nil:
		return last.Hello
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.EAGAIN), crowded && !refused.Over:
		return &silent
	}
	return nil
}

// findRelayed returns the run that a program connects to. words are the path and the arguments of the
// program. It is started once for each client, which is at its standard input and output.
func findRelayed(words []string) (h Hello, err error) {
	h.dial = func() (socket, error) {
		ours, theirs, err := pair()
		if err != nil {
			return nil, err
		}
		defer theirs.Close()
		p, err := os.StartProcess(words[0], words[1:], &os.ProcAttr{Files: []*os.File{theirs, theirs, os.Stderr}})
		if err != nil {
			ours.Close()
			return nil, err
		}
		go func() { _, _ = p.Wait() }()
		return ours, nil
	}
	last, err := Ask(context.Background(), h, Request{Op: "hello"}, nil)
	if err == nil && last.Hello != nil {
		h = *last.Hello
	}
	return h, err
}

// Find returns the run with a process ID or a name. "" stands for the only run. If there are words, they are the
// path and the arguments of a program that connects to the run.
func Find(run string, words ...string) (Hello, error) {
	if len(words) > 0 {
		return findRelayed(words)
	}
	return find(run, false)
}

// FindFeed is Find for adding tasks: it prefers runs that take any, and "" stands for the only one of these. The
// run must answer, because a request depends on what it takes.
func FindFeed(run string) (Hello, error) { return find(run, true) }

func find(run string, feeds bool) (h Hello, err error) {
	found := listNamed(run)
	if feeds { // a run that does not answer may be a crew serve
		some := slices.ContainsFunc(found, func(h Hello) bool { return h.Feeds })
		found = slices.DeleteFunc(found, func(h Hello) bool { return !h.Feeds && (some || run == "" && h.State != Silent) })
	}
	switch len(found) {
	case 0:
		return Hello{}, errNotFound(run, feeds)
	case 1:
		if feeds {
			err = found[0].Err
		}
		return found[0], err
	}
	if run == "" {
		return Hello{}, fmt.Errorf("%d runs are active; choose one with --run: %s", len(found), describeRuns(found))
	}
	return Hello{}, fmt.Errorf("%d runs are called %q; choose one by its process ID: %s", len(found), run, describeRuns(found))
}

// errNotFound returns the error for a run that does not exist.
func errNotFound(run string, feeds bool) error {
	all := List()
	switch {
	case len(all) == 0 && errUntrusted() != nil:
		return errUntrusted()
	case feeds && (len(all) == 0 || run == ""):
		return errors.New("no crew serve is running: start one, as with crew serve -j1 &")
	case len(all) == 0:
		return errors.New("no crew is running that can be controlled: start one, or serve with crew serve")
	}
	return fmt.Errorf("no run has the process ID or name %q: these are running: %s", run, describeRuns(all))
}

// describeRuns lists runs for an error text.
func describeRuns(list []Hello) string {
	var texts []string
	for _, h := range list {
		text := strconv.Itoa(h.PID)
		if h.State == Silent {
			text += ", which " + h.silence()
		} else if what := cmp.Or(h.Name, string(h.Command)); what != "" {
			text += " (" + task.Printable(task.Shorten(what, 40)) + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// Unreachable is the error of Ask if the run is gone, cannot be reached or, with os.ErrDeadlineExceeded, does
// not answer.
type Unreachable struct {
	PID int
	Err error
}

// Error names the run and says why.
func (e *Unreachable) Error() string {
	if e.Err == os.ErrDeadlineExceeded {
		return fmt.Sprintf("run %d does not answer: is it stopped?", e.PID)
	}
	return fmt.Sprintf("run %d has ended or cannot be reached: %v", e.PID, e.Err)
}

// Unwrap returns the error of the connection.
func (e *Unreachable) Unwrap() error { return e.Err }

// Ask sends a request on a new connection to a run that List or Find returned. It sets r.V.
// It calls f, unless that is nil, for each reply, including the last one and the reply with an error. line has
// no newline and is valid until f returns. Ask returns the last reply, and one of these errors: the first
// error of f, a *Refused, an *Unreachable, the error of ctx, or why the connection failed.
func Ask(ctx context.Context, h Hello, r Request, f func(line []byte, r *Reply) error) (last *Reply, err error) {
	dial := h.dial
	if dial == nil {
		dial = func() (socket, error) { return connect(h.path, helloTimeout) }
	}
	conn, err := dial()
	if err != nil {
		return nil, &Unreachable{h.PID, err}
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if !Waits(r.Op) {
		wait := answerTimeout
		if h.State == Silent {
			wait = helloTimeout // it already had its time in List
		}
		_ = conn.SetDeadline(time.Now().Add(wait))
	}
	last, err = exchange(conn, h, r, f)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &Unreachable{h.PID, os.ErrDeadlineExceeded}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		err = fmt.Errorf("run %d ended before it answered", h.PID)
	}
	return last, err
}

// Curves asks a run for its figures over time and, for a queue, for those of the last day and the last year. It
// returns nil if the run does not send any that can be shown.
func Curves(ctx context.Context, h Hello) []series.Curves {
	reply, err := Ask(ctx, h, Request{Op: "curves"}, nil)
	if err != nil || len(reply.Curves) > 3 || slices.ContainsFunc(reply.Curves, func(c series.Curves) bool { return !c.Valid() }) {
		return nil
	}
	return reply.Curves
}

// How a run ended.
const (
	Ended  = "ended"
	Killed = "killed"
)

// Watch watches a run and its state until the run is over, and returns Ended or Killed, or "" if ctx is
// done first. If the connection fails, or the run has no room for one more client, it connects again. It
// calls f as Ask does.
func Watch(ctx context.Context, h Hello, f func(line []byte, r *Reply) error) (how string) {
	for gone := Ended; ; {
		_, err := Ask(ctx, h, Request{Op: "watch", Follow: true}, f)
		if ctx.Err() != nil {
			return ""
		}
		refused, ok := errors.AsType[*Refused](err)
		wait := 50 * time.Millisecond
		switch {
		case err == nil:
			return Ended
		case ok && refused.Over, errors.Is(err, os.ErrNotExist):
			return gone
		case errors.Is(err, syscall.ECONNREFUSED):
			return Killed
		case ok:
			wait = time.Second
		default: // the run was killed: it would have said that it ends, unless this program was suspended then
			gone = Killed
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// exchange carries out Ask on a connection.
func exchange(conn io.ReadWriter, h Hello, r Request, f func(line []byte, r *Reply) error) (last *Reply, err error) {
	r.V = Version
	var b bytes.Buffer
	if err := writeLine(&b, r); err != nil {
		return nil, err
	}
	// A server without room for this client answers without reading, so the write may fail.
	_, sent := conn.Write(b.Bytes())
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return last, cmp.Or(sent, err)
		}
		last = &Reply{}
		if err := json.Unmarshal(line, last); err != nil {
			return nil, fmt.Errorf("the run sent no reply of this version: %w", err)
		}
		if last.Hello != nil {
			last.Hello.path, last.Hello.dial = h.path, h.dial
		}
		if f != nil {
			err = f(line[:len(line)-1], last)
		}
		switch {
		case err != nil:
			return last, err
		case last.End && last.Error != "":
			return last, &Refused{string(last.Error), last.Status, last.Over}
		case last.End:
			return last, nil
		}
	}
}
