package sink

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// text is a text in a row of testdata. "{9}x" stands for 9 times x, and a list for its parts.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (s *text) UnmarshalJSON(b []byte) error {
	var parts []text
	if b[0] == '[' {
		err := json.Unmarshal(b, &parts)
		for _, p := range parts {
			*s += p
		}
		return err
	}
	var whole task.Bytes
	err := json.Unmarshal(b, &whole)
	*s = text(whole)
	if n, rest, ok := strings.Cut(strings.TrimPrefix(string(whole), "{"), "}"); ok && whole[0] == '{' {
		times, err := strconv.Atoi(n)
		if err == nil {
			*s = text(strings.Repeat(rest, times))
		}
	}
	return err
}

// plain returns texts as strings.
func plain(texts []text) (list []string) {
	for _, s := range texts {
		list = append(list, string(s))
	}
	return list
}

// happening is an event in a row. Without a kind it is the end of a task.
type happening struct {
	Kind    string
	ID      uint64
	Text    string
	Running []uint64
	Retries int

	// of the task

	Argv    []text
	Records [][]text
	Object  string
	Key     text
	Shell   bool
	Stdin   *text
	Timeout int  // in seconds
	Bad     bool // it cannot run

	task.Result
	Ran        []text  // the command that ran
	Cut        bool    // its last output cannot be read
	Earlier    bool    // it is known from an earlier run
	Never      bool    // it never began
	Unmade     bool    // there was no attempt
	Start, End float64 // in milliseconds since 1970
	Error      string
	Tail       string
	Out, Err   text
	Before     []happening
}

var kinds = map[string]task.Kind{
	"": task.Finished, "retried": task.Retried, "started": task.Started, "admitted": task.Admitted, "draining": task.Draining,
	"stopping": task.Stopping, "inputend": task.InputEnd, "notice": task.Notice, "released": task.Released,
}

// result returns the result of a row.
func (h *happening) result(t testing.TB) *task.Result {
	r := h.Result
	r.Argv, r.Tail = plain(h.Ran), []byte(h.Tail)
	for i, s := range []text{h.Out, h.Err} {
		o := []*task.Output{&r.Stdout, &r.Stderr}[i]
		if s != "" {
			*o = kept(t, newStore(t, 1<<20), string(s))
		}
		if h.Cut && s != "" && (i == 1 || h.Err == "") {
			*o = brokenOutput{spool.Text(s)}
		}
	}
	if h.Error != "" {
		r.Err = errors.New(h.Error)
	}
	if h.End > 0 {
		r.Start, r.End = time.UnixMicro(int64(h.Start*1000)), time.UnixMicro(int64(h.End*1000))
	}
	for i := range h.Before {
		b := h.Before[i].result(t)
		b.Start, b.End, b.Earlier = dawn, dawn.Add(50*time.Millisecond), h.Before[i].Earlier
		r.Before = append(r.Before, b)
	}
	return &r
}

// event returns the event of a row.
func (h *happening) event(t testing.TB) task.Event {
	kind, ok := kinds[h.Kind]
	require.True(t, ok, h.Kind)
	if h.Outcome == task.Skipped {
		return skippedEvent(h.ID)
	}
	if kind != task.Finished && kind != task.Retried {
		e := task.Event{Kind: kind, At: dawn, ID: h.ID, Last: h.ID, Text: h.Text, Attempt: h.Attempt, Running: h.Running, Retries: h.Retries}
		if kind == task.Started {
			e.Task = &task.Task{ID: h.ID, Attempts: 1, Argv: []string{"job"}, Makes: &task.Making{Why: h.Text}}
		}
		return e
	}
	e := ended(h.ID, *h.result(t))
	e.Kind = kind
	if h.Never {
		e.Result.Start, e.Result.End, e.Attempt, e.Result.Attempt = time.Time{}, time.Time{}, 0, h.Attempt
	}
	if h.Unmade {
		e.Attempt = 0
	}
	if h.Earlier {
		e.Task.Done = e.Result
	}
	if h.Argv != nil {
		e.Task.Argv = plain(h.Argv)
	}
	if h.Records != nil {
		e.Task.Records = [][]string{}
		for _, r := range h.Records {
			e.Task.Records = append(e.Task.Records, plain(r))
		}
	}
	if h.Stdin != nil {
		e.Task.Stdin = []byte(*h.Stdin)
	}
	e.Task.Object, e.Task.Key, e.Task.Shell, e.Task.Timeout = h.Object, string(h.Key), h.Shell, time.Duration(h.Timeout)*time.Second
	if h.Bad {
		e.Task.Err = os.ErrInvalid
	}
	e.Task.Tag = fmt.Sprintf("t%d", h.ID)
	return e
}

// eventsOf returns the events of a row, in which results have their earlier attempts.
func eventsOf(t testing.TB, list []happening) (events []task.Event) {
	retried := map[[2]int]*task.Result{}
	for i := range list {
		e := list[i].event(t)
		if e.Result != nil {
			for i, b := range e.Result.Before {
				e.Result.Before[i] = cmp.Or(retried[[2]int{int(e.ID), b.Attempt}], b)
			}
			if e.Kind == task.Retried {
				retried[[2]int{int(e.ID), e.Result.Attempt}] = e.Result
			}
		}
		events = append(events, e)
	}
	return events
}

// TestDigest checks the digest of a run.
func TestDigest(t *testing.T) {
	crewtest.Examples(t, "testdata/digest.jsonl", func(t *testing.T, c struct {
		It    string
		Input struct {
			Tasks       *int64 // negative: a lower bound
			Done        int64
			Kept, Shown bool
		}
		FlakyFail bool
		Events    []happening
		Says      text
	}) {
		in := Input{DoneBefore: c.Input.Done, Resumable: c.Input.Kept, Elsewhere: c.Input.Shown}
		if n := c.Input.Tasks; n != nil {
			in.Tasks = func(time.Duration) (int64, bool) { return *n, *n >= 0 }
		}
		var err bytes.Buffer
		d := NewDigest(NewScreen(io.Discard, &err), in, RerunConfig{})
		d.FlakyFail = c.FlakyFail
		closeDigest(t, d, eventsOf(t, c.Events))
		require.Equal(t, string(c.Says), err.String(), c.It)
		t.Setenv("FORCE_COLOR", "1")
		require.NotContains(t, d.TotalsLine(), "\x1b")
	})
}

// TestJoblog checks a joblog after a run. A resumed run may know the start times of earlier
// results.
func TestJoblog(t *testing.T) {
	crewtest.Examples(t, "testdata/joblog.jsonl", func(t *testing.T, c struct {
		It     string
		Mode   JoblogMode
		Was    *string // the file before the run
		Noted  []int64
		Events []happening
		Log    string
	}) {
		path, header := filepath.Join(t.TempDir(), "log"), strings.NewReplacer("HEADER\n", joblogHeader)
		if c.Was != nil {
			crewtest.WriteFile(t, path, header.Replace(*c.Was), 0o666)
		}
		j, err := OpenJoblog(path, c.Mode, func(yield func(time.Time) bool) {
			for _, ms := range c.Noted {
				_ = yield(time.UnixMilli(ms))
			}
		})
		require.NoError(t, err)
		require.NoError(t, j.Consume(eventsOf(t, c.Events)))
		require.Equal(t, header.Replace(c.Log), crewtest.ReadFile(t, path), c.It)
		require.NoError(t, j.Close(task.Stats{}))
	})
}

// TestObjects checks the object of a result.
func TestObjects(t *testing.T) {
	crewtest.Examples(t, "testdata/objects.jsonl", func(t *testing.T, c struct {
		It               string
		Outputs, Several bool
		Objects          bool
		Names            []string
		Event            happening
		Object           string
	}) {
		e := c.Event.event(t)
		var b bytes.Buffer
		j := object{outputs: c.Outputs, records: Records{Several: c.Several, Objects: c.Objects, Names: c.Names}}
		require.NoError(t, j.write(&b, e.Task, e.Result))
		require.Equal(t, c.Object+"\n", b.String(), c.It)
		require.True(t, json.Valid(b.Bytes()))
	})
}

// TestShown checks results on stdout and stderr, with and without order.
func TestShown(t *testing.T) {
	crewtest.Examples(t, "testdata/shown.jsonl", func(t *testing.T, c struct {
		It              string
		Show            task.Show
		Order           *bool // nil: either
		Tag, FailedOnly bool
		Group           bool
		Cut             bool        // an output cannot be read
		Events          []happening // without Released events
		Out, Err        text
		Both            text
	}) {
		for _, order := range []bool{false, true} {
			if c.Order != nil && order != *c.Order {
				continue
			}
			var p page
			cfg := StdoutConfig{Plan: task.Plan{Show: c.Show, Order: order, Tag: c.Tag, FailedOnly: c.FailedOnly}, Store: newStore(t, 1<<20)}
			if c.Group {
				cfg.Group = func(t *task.Task, _ *task.Result, stderr bool) (begin, end string) {
					return fmt.Sprintf("<%d %v\n", t.ID, stderr), ">\n"
				}
			}
			s := NewStdout(p.screen(), cfg)
			var ids []uint64
			events := eventsOf(t, c.Events)
			for _, e := range events {
				ids = append(ids, e.ID)
			}
			slices.Sort(ids)
			err := errors.Join(s.Consume(events), s.Consume(released(slices.Compact(ids)...)))
			require.Equal(t, c.Cut, errors.Is(err, os.ErrClosed), "%v", err)
			if c.Both != "" {
				require.True(t, string(c.Both) == p.both.String(), "%s: %.300q", c.It, p.both.String())
				continue
			}
			require.True(t, string(c.Out) == p.out.String(), "%s: %.300q", c.It, p.out.String())
			require.True(t, string(c.Err) == p.err.String(), "%s: %.300q", c.It, p.err.String())
		}
	})
}
