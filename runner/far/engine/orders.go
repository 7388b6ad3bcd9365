package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/address"
	"crew/runner/far/credentials"
	"crew/runner/far/outbox"
	"crew/runner/far/travel"
)

// Order is a request to a worker, a submitter or a hub, as JSON.
type Order struct {
	Version int    `json:"version"`
	Op      string `json:"op"`
	Run     string // which it concerns
	Epoch   uint64 // likewise

	from string // the user who sent it; see serveOrders

	By   string            `json:"by,omitempty"`   // cancel, drain and talk: the person who asks
	User *credentials.User `json:"user,omitempty"` // invite and revoke

	Client string `json:"client,omitempty"` // talk: identifies the client
	Turn   uint64 `json:"turn,omitempty"`   // talk: number of the exchange, from 1; 0 once the client has disconnected

	// about a detached run

	Record *runRecord   `json:"handed,omitempty"` // store
	Tasks  *travel.Blob `json:"tasks,omitempty"`  // store: its tasks, one a line
	Owner  string       `json:"owner,omitempty"`  // store: the user in whose name they are fetched
	File   string       `json:"file,omitempty"`   // read: name of the file
	At     int64        `json:"at,omitempty"`     // read: offset in the file
	Data   []byte       `json:"data,omitempty"`   // talk
}

// The operations. Orders to a worker come from submitters, except for drain; orders to a submitter
// come from crew engine.
const (
	opCancel   = "cancel"   // end the attempt (TERM, then KILL), or the run
	opKill     = "kill"     // kill the attempt
	opReturn   = "return"   // return the attempt unless it has begun
	opRecorded = "recorded" // forget the attempt: its result is recorded

	opLeave = "leave" // end all attempts of the run's older epochs; the answer comes once they have ended
	opTalk  = "talk"  // pass Data to the run's control server

	opDrain = "drain" // end once the running attempts have ended

	opInvite = "invite" // to the hub: let a user connect
	opRevoke = "revoke" // to the hub: remove a user and close the user's connections

	opStore  = "store"  // to the hub: accept a run, and fetch its tasks; to a crew serve: accept a request to add tasks
	opRead   = "read"   // to the hub: return a part of a file of a run
	opForget = "forget" // to the hub: end and remove a run
)

// Answer replies to an Order, as JSON.
type Answer struct {
	Err   string `json:"err,omitempty"`
	Conns int    `json:"conns,omitempty"` // revoke: number of closed connections

	Context *address.Context `json:"context,omitempty"` // invite

	Foreign bool `json:"foreign,omitempty"` // the order is of another version: repeating it is pointless

	// about a detached run

	None   bool    `json:"none,omitempty"`   // the run does not exist, or the order can never be carried out
	Data   []byte  `json:"data,omitempty"`   // read: bytes of the file, none at its end; talk: the reply
	Done   bool    `json:"done,omitempty"`   // talk: the conversation is over
	End    *runEnd `json:"over,omitempty"`   // read: how the run ended; nil if it has not
	Notice string  `json:"notice,omitempty"` // read: the last notice about the run
	Wait   bool    `json:"wait,omitempty"`   // store: the tasks are being fetched; ask again

	unsure bool // an order may have been carried out without an answer; see askUntilDone

	after func() // called once the answer is sent; may be nil
}

func (o Order) encode() []byte {
	o.Version = Version
	b, _ := json.Marshal(o)
	return b
}

// ask sends an order and waits for the answer.
func (s *session) ask(ctx context.Context, subject string, o Order) (a Answer, err error) {
	inbox := s.nc.Opts.InboxPrefix + "." + rand.Text() // unlike an inbox of the client, it cannot be guessed
	answers, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return a, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err = s.nc.PublishRequest(subject, inbox, o.encode()); err != nil {
		return a, err
	}
	m, err := answers.NextMsgWithContext(ctx)
	if err == nil {
		err = readJSON(m.Data, &a)
	}
	return a, err
}

// serveOrders calls carryOut for each order on a subject, in a goroutine of its own, and answers it.
// Order.from is the last part of the subject. It means something only if that is a user: then the
// server has checked it.
func (s *session) serveOrders(subject string, carryOut func(*Order, *Answer) error) (*nats.Subscription, error) {
	answer := func(m *nats.Msg) {
		var o Order
		var a Answer
		err := errGarbage
		o.from = userIn(m.Subject)
		switch bad := readJSON(m.Data, &o); {
		case bad != nil:
		case o.Version != Version:
			err, a.Foreign = &versionError{o.Version}, true
		default:
			err = carryOut(&o, &a)
		}
		if err != nil {
			a.Err, a.None = err.Error(), a.None || errors.Is(err, errGarbage)
		}
		b, _ := json.Marshal(a)
		outbox.Answer(m, b)
		if a.after != nil {
			a.after()
		}
	}
	return s.nc.QueueSubscribe(subject, "crew", func(m *nats.Msg) { go answer(m) }) // one of several crew serves of a name
}

// serveMessages calls take for each message that other outboxes send on a subject, and then answers it.
func (s *session) serveMessages(subject string, take func(subject string, data []byte)) (*nats.Subscription, error) {
	return s.nc.Subscribe(subject, func(m *nats.Msg) {
		take(m.Subject, m.Data)
		outbox.Answer(m, []byte{'+'})
	})
}

func (o *Order) unknown() error { return fmt.Errorf("there is no order %q", o.Op) }

// cause returns the error for something done by order: "cancelled by ann on web1".
func (o *Order) cause(what string) error {
	return errors.New(what + " by " + o.by())
}

// by returns By, fit to be shown.
func (o *Order) by() string { return task.Printable(task.Shorten(cmp.Or(o.By, "somebody"), 200)) }
