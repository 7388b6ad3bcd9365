package history

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"crew/runner/control"
	"crew/runner/task"
)

// record is an object of any of the forms: of --json, of crew ctl watch --json, or of
// crew state --json.
type record struct {
	control.Event
	task.Facts
	outputs  [2]output  // stdout and stderr
	attempts []*record  // those that failed before
	end      *time.Time // of watch: when the run ended
	command  string     // of watch: that of the run
	stream   string     // of watch: the name of the output of which data is a piece
	data     []byte
	version  bool // it is of watch
	id       string
	retried  bool // of a journal: another attempt follows
	again    bool // of a journal: the task was done again
	unkept   bool // of a journal: the outputs may not be there
}

// output is an output of an attempt.
type output struct {
	end []byte   // of it
	at  [3]int64 // of a journal: where it is
}

// maxSeconds is the latest time after 1970 that is taken for one: in 2262. Later ones are
// no number of nanoseconds.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// maxAttempts is how many earlier attempts a task can have in --json. crew writes ten.
const maxAttempts = 1000

// read reads an object.
func (r *record) read(l *lexer) {
	l.object(func(name []byte) {
		if r.fact(l, name) || r.event(l, name) {
			return
		}
		switch string(name) {
		case "stdout":
			r.outputs[0].read(l)
		case "stderr":
			r.outputs[1].read(l)
		case "attempts":
			r.earlier(l)
		case "id":
			r.id = string(l.bytes())
		case "retried":
			r.retried = string(l.raw()) == "true"
		case "again":
			r.again = string(l.raw()) == "true"
		case "streamed", "dropped", "made": // the last is of a task that may have written to a file
			l.raw()
			r.unkept = true
		default:
			l.raw()
		}
	})
}

// fact reads a member that is one of the facts. It returns false for another one.
func (r *record) fact(l *lexer, name []byte) bool {
	f := &r.Facts
	switch string(name) {
	case "task":
		f.Task = l.count()
	case "key":
		f.Key = l.bytes()
	case "command":
		f.Command = l.bytes()
	case "outcome":
		l.bad = f.Outcome.UnmarshalText(l.end(maxName)) != nil || l.bad
	case "exit":
		code := l.int()
		f.Exit = &code
	case "signal":
		f.Signal = l.int()
	case "error":
		f.Error = l.bytes()
	case "attempt":
		f.Attempt = l.int()
	case "worker":
		f.Worker = l.int()
	case "host":
		f.Host = l.bytes()
	case "units":
		l.value(&f.Units)
	case "pid":
		f.PID = l.int()
	case "start":
		f.Start = l.time()
	case "duration":
		f.Duration = l.seconds()
	case "user":
		f.User = l.seconds()
	case "system":
		f.System = l.seconds()
	case "maxrss":
		f.MaxRSS = int64(l.int())
	case "leaked":
		f.Leaked = string(l.raw()) == "true"
	default:
		return false
	}
	return true
}

// event reads a member of an event or of another reply to watch or log. It returns false for another one.
func (r *record) event(l *lexer, name []byte) bool {
	e := &r.Event
	switch string(name) {
	case "v":
		l.raw()
		r.version = true
	case "event":
		e.Name = string(l.bytes())
	case "at":
		e.At = l.time()
	case "wait":
		e.Wait = l.seconds()
	case "workers":
		e.Workers = l.int()
	case "blocking":
		l.value(&e.Blocking)
	case "text":
		e.Text = string(l.bytes())
	case "count":
		e.Count = int64(l.int())
	case "hello":
		var h control.Hello
		l.value(&h)
		r.command = string(h.Command)
	case "run":
		var s struct {
			At time.Time `json:"at"`
		}
		l.value(&s)
		r.end = &s.At
	case "stream":
		r.stream = string(l.bytes())
	case "data":
		l.value(&r.data)
	default:
		return false
	}
	return true
}

// read reads an output, or says where it is.
func (o *output) read(l *lexer) {
	if l.token() == '[' {
		l.value(&o.at)
	} else {
		o.end = l.tail()
	}
}

// earlier reads the attempts before.
func (r *record) earlier(l *lexer) {
	l.list('[', ']', func() {
		a := new(record)
		a.read(l)
		r.attempts = append(r.attempts, a)
		l.bad = l.bad || len(r.attempts) > maxAttempts
	})
}

// written returns the end of what a failed attempt wrote: on stderr or, if there is
// nothing to see, on stdout.
func (r *record) written() []byte {
	if !r.Outcome.Failed() {
		return nil
	}
	return seen(r.outputs[0].end, r.outputs[1].end)
}

func seen(stdout, stderr []byte) []byte {
	if len(task.LastLines(stderr, 1)) > 0 || len(stdout) == 0 {
		return stderr
	}
	return stdout
}

// The methods below read a value of the given kind.

func (l *lexer) int() int {
	n, err := strconv.Atoi(string(l.raw()))
	l.bad = l.bad || err != nil
	return n
}

func (l *lexer) count() uint64 {
	n, err := strconv.ParseUint(string(l.raw()), 10, 64)
	l.bad = l.bad || err != nil
	return n
}

func (l *lexer) time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, string(l.end(maxName)))
	l.bad = l.bad || err != nil || t.Unix() < 0 || t.Unix() > maxSeconds
	return t
}

func (l *lexer) seconds() (s task.Seconds) {
	l.bad = s.UnmarshalJSON(l.raw()) != nil || s < 0 || l.bad
	return s
}

func (l *lexer) value(to any) {
	if text := l.raw(); !l.bad {
		l.bad = json.Unmarshal(text, to) != nil
	}
}
