package engine

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// outboxBytes is how much may wait for the stream's confirmation.
	outboxBytes = 32 << 20
	letterSize  = 1 << 10       // counted for a message beside its data
	ackPatience = answerWait    // after which a message without an answer is sent again
	errorPause  = reconnectWait // after which a refused message is sent again
)

// outbox publishes messages to streams, each again and again until the stream has it.
// The stream drops what it gets twice. It is safe for concurrent use.
type outbox struct {
	nc    *nats.Conn
	inbox string // subjects of answers are this and a number
	told  *once

	mu      sync.Mutex
	changed sync.Cond // less is pending
	pending map[uint64]*letter
	last    uint64
	bytes   int // pending
}

// letter is a message that no stream has confirmed yet.
type letter struct {
	run  string
	msg  *nats.Msg
	done func() // the stream has it; called once by the goroutine of the answers
	next time.Time
}

func newOutbox(nc *nats.Conn, notice func(string)) (*outbox, error) {
	o := &outbox{nc: nc, inbox: nc.NewInbox() + ".", told: &once{notice: notice}, pending: map[uint64]*letter{}}
	o.changed.L = &o.mu
	_, err := nc.Subscribe(o.inbox+"*", o.answered)
	return o, err
}

// wait blocks while too much is pending.
func (o *outbox) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes >= outboxBytes {
		o.changed.Wait()
	}
}

// drop forgets the pending messages of a run.
func (o *outbox) drop(run string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n, l := range o.pending {
		if l.run == run {
			o.remove(n)
		}
	}
}

// remove takes a message off. Its caller holds mu.
func (o *outbox) remove(n uint64) {
	o.bytes -= len(o.pending[n].msg.Data) + letterSize
	delete(o.pending, n)
	o.changed.Broadcast()
}

// flush blocks until nothing is pending.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending) > 0 {
		o.changed.Wait()
	}
}

// send publishes a message of a run, which the stream knows by id, and calls done when it is
// confirmed.
func (o *outbox) send(subject, run, id string, data []byte, done func()) {
	l := &letter{run: run, done: done, next: time.Now().Add(ackPatience)}
	o.mu.Lock()
	o.last++
	n := o.last
	l.msg = &nats.Msg{
		Subject: subject, Reply: o.inbox + strconv.FormatUint(n, 36), Data: data, Header: nats.Header{"Nats-Msg-Id": {id}},
	}
	o.pending[n] = l
	o.bytes += len(data) + letterSize
	o.mu.Unlock()
	_ = o.nc.PublishMsg(l.msg) // or else at the next reconnection
}

// clear forgets what is pending.
func (o *outbox) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.pending)
	o.bytes = 0
	o.changed.Broadcast()
}

// again publishes what is pending and due; all of it if everything is.
func (o *outbox) again(everything bool) {
	now := time.Now()
	var list []*letter
	o.mu.Lock()
	for _, l := range o.pending {
		if everything || !now.Before(l.next) {
			l.next = now.Add(ackPatience)
			list = append(list, l)
		}
	}
	o.mu.Unlock()
	for _, l := range list {
		_ = o.nc.PublishMsg(l.msg)
	}
}

var errorMark = []byte(`"error":`)

// answered takes a stream's answer.
func (o *outbox) answered(m *nats.Msg) {
	n, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, o.inbox), 36, 64)
	if err != nil {
		return
	}
	bad := len(m.Data) == 0 || bytes.Contains(m.Data, errorMark) // without data: nobody has the stream
	o.mu.Lock()
	l := o.pending[n]
	if l == nil {
		o.mu.Unlock()
		return
	}
	if bad {
		l.next = time.Now().Add(errorPause)
		o.mu.Unlock()
		o.told.say(refusal(m.Data))
		return
	}
	o.remove(n)
	o.mu.Unlock()
	l.done()
}

// refusal says why a stream takes no message.
func refusal(answer []byte) string {
	var a struct {
		Error struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	switch _ = json.Unmarshal(answer, &a); a.Error.Code {
	case 0:
		return "the engine cannot store messages now: trying again"
	case codeFull:
		return "a stream of the engine is full: waiting until there is room"
	}
	return "the engine does not store a message: " + a.Error.Description + ": trying again"
}

// codeFull is the server's error code for a message that exceeds a limit of a stream.
const codeFull = 10077
