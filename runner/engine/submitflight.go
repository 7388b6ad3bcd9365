package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/task"
)

const (
	resendAfter = 3 * time.Second        // a message whose storage nobody has confirmed
	fullAfter   = 100 * time.Millisecond // one that the stream had no room for
	orderAfter  = time.Second            // an order that nobody has answered

	streamFull = 10077 // JetStream's error code: maximum messages exceeded
)

// flights are the attempts that workers have been given and that have not ended, and
// what is sent for them until it has arrived.
type flights struct {
	nc     *nats.Conn
	inbox  string // confirmations and answers come to INBOX.OP.TASK.NUMBER
	notice *once

	mu sync.Mutex
	m  map[uint64]*flight // by task
}

// flight is an attempt that a worker has been given.
type flight struct {
	attempt task.Attempt
	id      ID
	token   Token
	worker  *worker
	subject string
	big     bool     // its message is an object
	held    *held    // its first result; nil if there is none, or without --state
	done    chan end // gets one end

	// sending, under flights.mu

	msg     *nats.Msg // nil once it is stored
	sent    time.Time
	full    bool      // the stream had no room for it
	stored  time.Time // when that was confirmed; zero if it was not
	op      string    // the latest order; "" for none
	ordered time.Time // when that was sent; zero once it is answered
	unknown int       // how often the worker has said that it does not hold it

	checked time.Time // when its worker was last asked about it

	out outputs
}

// end is how a flight ends.
type end struct {
	final   *Final // nil if the attempt is lost
	err     error  // then why
	unbegun bool   // then that it had not begun
}

func (s *flights) open(nc *nats.Conn, notice func(string)) error {
	s.nc, s.inbox, s.m, s.notice = nc, nc.NewInbox(), map[uint64]*flight{}, &once{notice: notice}
	_, err := nc.Subscribe(s.inbox+".>", s.answered)
	return err
}

func (s *flights) add(f *flight) {
	s.mu.Lock()
	s.m[f.id.Task] = f
	s.mu.Unlock()
}

func (s *flights) remove(f *flight) {
	s.mu.Lock()
	if s.m[f.id.Task] == f {
		delete(s.m, f.id.Task)
	}
	s.mu.Unlock()
}

// find returns the flight of a task, or nil.
func (s *flights) find(id uint64) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[id]
}

// of returns the flights with a worker, or all if it is nil.
func (s *flights) of(w *worker) (list []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.m {
		if w == nil || f.worker == w {
			list = append(list, f)
		}
	}
	return list
}

// reply returns where the answer to an op on a flight goes.
func (s *flights) reply(op string, id ID) string {
	b := append(make([]byte, 0, 80), s.inbox...)
	b = append(append(append(b, '.'), op...), '.')
	b = append(strconv.AppendUint(b, id.Task, 10), '.')
	return string(strconv.AppendInt(b, int64(id.Number), 10))
}

// opStore stands for the storing of an attempt's message.
const opStore = "store"

// publish sends the message of a flight, again and again until it is stored.
func (s *flights) publish(f *flight, data []byte) {
	id := f.id
	key := id.Run + "." + strconv.FormatUint(id.Epoch, 10) + "." + strconv.FormatUint(id.Task, 10) + "." + strconv.Itoa(id.Number)
	msg := &nats.Msg{
		Subject: f.subject, Reply: s.reply(opStore, id), Data: data,
		Header: nats.Header{nats.MsgIdHdr: []string{key}},
	}
	s.mu.Lock()
	f.msg, f.sent = msg, time.Now()
	s.mu.Unlock()
	_ = s.nc.PublishMsg(msg) // resend tries again
}

// order sends an order about a flight, again and again until it is answered. A flight
// that is certainly not under way ends at once.
func (s *flights) order(f *flight, op string) {
	s.mu.Lock()
	if f.op == opKill && op == opCancel {
		op = opKill
	}
	f.op, f.ordered = op, time.Now()
	waits := f.full
	s.mu.Unlock()
	if waits {
		f.finish(end{err: errors.New("the engine's queue is full"), unbegun: true})
	}
	s.send(f, op)
}

func (s *flights) send(f *flight, op string) {
	b, _ := json.Marshal(Order{Version: Version, Op: op, Run: f.id.Run, Epoch: f.id.Epoch, Task: f.id.Task, Number: f.id.Number})
	_ = s.nc.PublishRequest(f.worker.orders, s.reply(op, f.id), b) // resend tries again
}

// resend sends again what has not arrived. now is zero if nothing that was sent before
// is believed to arrive.
func (s *flights) resend(now time.Time) {
	var msgs []*nats.Msg
	var orders []*flight
	s.mu.Lock()
	for _, f := range s.m {
		after := resendAfter
		if f.full {
			after = fullAfter
		}
		if f.msg != nil && (now.IsZero() || now.Sub(f.sent) >= after) {
			f.sent, f.full = time.Now(), false
			msgs = append(msgs, f.msg)
		}
		if !f.ordered.IsZero() && (now.IsZero() || now.Sub(f.ordered) >= orderAfter) {
			f.ordered = time.Now()
			orders = append(orders, f)
		}
	}
	s.mu.Unlock()
	for _, m := range msgs {
		_ = s.nc.PublishMsg(m)
	}
	for _, f := range orders {
		s.send(f, f.op)
	}
}

// answered takes confirmations of storage and answers to orders.
func (s *flights) answered(m *nats.Msg) {
	part := strings.Split(m.Subject[min(len(m.Subject), len(s.inbox)+1):], ".")
	if len(part) != 3 {
		return
	}
	id, _ := strconv.ParseUint(part[1], 10, 64)
	number, _ := strconv.Atoi(part[2])
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.m[id]
	switch {
	case f == nil || f.id.Number != number || len(m.Data) == 0: // there are no responders now
	case part[0] != opStore:
		var a Answer
		if json.Unmarshal(m.Data, &a) == nil && a.Err == "" && part[0] == f.op {
			f.ordered = time.Time{}
		}
	case !bytes.Contains(m.Data, []byte(`"error"`)):
		f.msg, f.full, f.stored = nil, false, time.Now()
	default:
		s.refused(f, m.Data)
	}
}

// refused takes the news that a message was not stored. The caller holds mu.
func (s *flights) refused(f *flight, data []byte) {
	var a struct {
		Error struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &a) != nil || f.msg == nil {
		return
	}
	if f.full = a.Error.Code == streamFull; !f.full {
		s.notice.say("the engine refuses tasks: " + a.Error.Description)
	}
}
