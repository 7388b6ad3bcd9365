package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"crew/runner/decide/task"
)

// spec is a whole task in the journal of a queue, without its number and, for a bare task, without
// its environment. The environment is stored next to the spec (see packEnv), because many tasks have
// the same one.
type spec struct {
	Argv      words         `json:"argv,omitempty"`
	Exec      words         `json:"exec,omitempty"`
	Shell     bool          `json:"shell,omitempty"`
	NoArgs    bool          `json:"noargs,omitempty"`
	Env       words         `json:"env,omitempty"`
	Bare      bool          `json:"bare,omitempty"`
	Dir       task.Bytes    `json:"dir,omitempty"`
	Stdin     *task.Bytes   `json:"stdin,omitempty"` // nil means /dev/null
	Protocol  task.Protocol `json:"protocol,omitempty"`
	Key       task.Bytes    `json:"key,omitempty"`
	Cost      int64         `json:"cost,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
	KillAfter time.Duration `json:"killafter,omitempty"`
	Records   []words       `json:"records,omitempty"`
	Object    task.Bytes    `json:"object,omitempty"`
	Tag       task.Bytes    `json:"tag,omitempty"`
	Marks     []task.Mark   `json:"marks,omitempty"`
	Makes     *makingSpec   `json:"makes,omitempty"`
	Error     string        `json:"error,omitempty"` // why the task cannot run
	task.Terms
}

// makingSpec is the part of a task.Making that the task's command determines.
type makingSpec struct {
	Targets []targetSpec `json:"targets"`
	Reads   words        `json:"reads,omitempty"`
	Guessed bool         `json:"guessed,omitempty"`
	Stdout  bool         `json:"stdout,omitempty"`
}

type targetSpec struct {
	Path task.Bytes `json:"path"`
	Temp bool       `json:"temp,omitempty"`
}

// words are encoded as task.Bytes.
type words []string

// MarshalJSON implements json.Marshaler.
func (w words) MarshalJSON() ([]byte, error) { return task.AppendColumns(nil, w), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(text []byte) error {
	var list []task.Bytes
	err := json.Unmarshal(text, &list)
	*w = make(words, len(list))
	for i, s := range list {
		(*w)[i] = string(s)
	}
	return err
}

func specOf(t *task.Task) *spec {
	s := &spec{
		Terms: t.Terms(), Argv: t.Argv, Exec: t.Exec, Shell: t.Shell, NoArgs: t.NoArgs, Bare: t.Bare, Dir: task.Bytes(t.Dir), Key: task.Bytes(t.Key),
		Protocol: t.Protocol, Cost: t.Cost, Timeout: t.Timeout, KillAfter: t.KillAfter, Object: task.Bytes(t.Object), Tag: task.Bytes(t.Tag), Marks: t.Marks,
	}
	if !t.Bare {
		s.Env = t.Env
	}
	if t.Stdin != nil {
		stdin := task.Bytes(t.Stdin)
		s.Stdin = &stdin
	}
	for _, r := range t.Records {
		s.Records = append(s.Records, r)
	}
	if m := t.Makes; m != nil {
		s.Makes = &makingSpec{Reads: m.Reads, Guessed: m.Guessed, Stdout: m.Stdout}
		for _, x := range m.Targets {
			s.Makes.Targets = append(s.Makes.Targets, targetSpec{task.Bytes(x.Path), x.Temp})
		}
	}
	if t.Err != nil {
		s.Error = t.Err.Error()
	}
	return s
}

// fill sets the fields of t that s holds.
func (s *spec) fill(t *task.Task) {
	t.Argv, t.Exec, t.Shell, t.NoArgs, t.Env, t.Bare = s.Argv, s.Exec, s.Shell, s.NoArgs, s.Env, s.Bare
	t.Dir, t.Key, t.Cost, t.Timeout, t.KillAfter = string(s.Dir), string(s.Key), s.Cost, s.Timeout, s.KillAfter
	t.Object, t.Tag, t.Marks, t.Protocol = string(s.Object), string(s.Tag), s.Marks, s.Protocol
	if asked := s.Terms; !asked.IsZero() {
		t.Asked = &asked
	}
	if s.Stdin != nil {
		t.Stdin = []byte(*s.Stdin)
	}
	for _, r := range s.Records {
		t.Records = append(t.Records, r)
	}
	if m := s.Makes; m != nil {
		t.Makes = &task.Making{Reads: m.Reads, Guessed: m.Guessed, Stdout: m.Stdout}
		for _, x := range m.Targets {
			t.Makes.Targets = append(t.Makes.Targets, task.Target{Path: string(x.Path), Temp: x.Temp})
		}
	}
	if s.Error != "" {
		t.Err = errors.New(s.Error)
	}
}

// EncodeTask returns a task in the format of a queue's journal, without its number and its past.
func EncodeTask(t *task.Task) ([]byte, error) { return json.Marshal(specOf(t)) }

// DecodeTask is the inverse of EncodeTask: it sets the encoded fields in t.
func DecodeTask(text []byte, t *task.Task) error {
	s := &spec{}
	err := json.Unmarshal(text, s)
	if err == nil {
		s.fill(t)
	}
	return err
}

// namedName names the member that says that a task has a name, or runs another one again.
const namedName = "named"

// envMark begins the part of an evAccepted line that is never printed. Strings before it cannot
// contain it, because their quotes are escaped.
const envMark = `,"environment":`

// deliveredName names the member that says that a task counts only once the evDelivery line follows.
const deliveredName = "delivered"

// appendAccepted appends the line about a task that was accepted or changed. For a bare task, env
// is its packed environment.
func appendAccepted(b []byte, t *task.Task, env []byte, now time.Time, delivered bool) ([]byte, error) {
	spec, err := json.Marshal(specOf(t))
	if err != nil {
		return b, fmt.Errorf("task %d: %w", t.ID, err)
	}
	from := len(b)
	b = beginTaskLine(b, evAccepted, t.Identity)
	f := task.Facts{Task: t.ID, Command: task.Bytes(t.ShortCommandLine(t.Argv, maxCommand))}
	b = task.AppendTime(f.Append(b), "at", now)
	if t.Terms().Name != "" || t.Terms().RerunOf > 0 {
		b = task.AppendTrue(b, namedName)
	}
	if delivered {
		b = task.AppendTrue(b, deliveredName)
	}
	b = append(b, envMark+`"`...)
	if t.Bare {
		b = base64.StdEncoding.AppendEncode(b, env)
	}
	b = append(append(b, `","spec":`...), spec...)
	b = seal(b, from)
	if n := len(b) - from; n > MaxLine {
		return b, fmt.Errorf("task %d takes %d bytes: at most %d can be recorded", t.ID, n, MaxLine)
	}
	return b, nil
}

// packEnv encodes the environment of a bare task.
func packEnv(env []string) []byte {
	var b bytes.Buffer // never returns an error
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = io.WriteString(z, strings.Join(env, "\x00"))
	_ = z.Close()
	return b.Bytes()
}

// unpackEnv is the inverse of packEnv.
func unpackEnv(packed []byte) ([]string, error) {
	var text []byte
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		text, err = io.ReadAll(z)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("its environment: %w", errDamagedRecord)
	case len(text) == 0:
		return []string{}, nil
	}
	return strings.Split(string(text), "\x00"), nil
}
