package engine

import (
	"cmp"
	"context"
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

// Order is a request to a worker or a submitter, as JSON.
type Order struct {
	Version int    `json:"version"`
	Op      string `json:"op"`
	ID             // of the attempt, the epoch or the run that it is about

	from string // the user who gives it, for whom the server vouches

	By   string            `json:"by,omitempty"`   // cancel and drain: who asks for it
	User *credentials.User `json:"user,omitempty"` // invite and revoke

	Client string `json:"client,omitempty"` // talk: whose turn it is
	Turn   uint64 `json:"turn,omitempty"`   // talk: from 1; 0 if the client has gone

	// about a run that is handed over

	Handed *handed      `json:"handed,omitempty"` // store
	Tasks  *travel.Blob `json:"tasks,omitempty"`  // store: each on a line
	For    string       `json:"for,omitempty"`    // next: the name of the crew serve
	File   string       `json:"file,omitempty"`   // read: which
	At     int64        `json:"at,omitempty"`     // read: where in the file
	Data   []byte       `json:"data,omitempty"`   // talk
	Report *report      `json:"report,omitempty"` // report
}

// The requests. Those to a worker come from submitters, but for drain, those to a
// submitter from crew engine.
const (
	opCancel = "cancel" // end the attempt (TERM, then KILL), tasks, or the run
	opKill   = "kill"   // kill the attempt
	opReturn = "return" // give the attempt back unless it has begun
	opLeave  = "leave"  // end all attempts of the run's older epochs, and answer once they have ended
	opTalk   = "talk"   // what does the run's control server say to that?

	opDrain = "drain" // end once what runs has ended

	opInvite = "invite" // to the hub: let a user connect
	opRevoke = "revoke" // to the hub: let a user connect no more

	opReport = "report" // to the hub: so far is the run that was handed over
	opStore  = "store"  // to the hub: take a run, and fetch its tasks
	opRead   = "read"   // what has a file of a run at an offset?
	opForget = "forget" // remove a run
	opNext   = "next"   // remove the request that was taken last: which is the next one for a crew serve?
)

// Answer replies to an Order, as JSON.
type Answer struct {
	Err   string `json:"err,omitempty"`
	Conns int    `json:"conns,omitempty"` // revoke: how many connections it has closed

	Context *address.Context `json:"context,omitempty"` // invite

	// about a run that was handed over

	None   bool   `json:"none,omitempty"`   // there is no such run, or none takes such an order
	Data   []byte `json:"data,omitempty"`   // read: what is there, nothing at the end; talk
	Done   bool   `json:"done,omitempty"`   // talk: nothing more comes
	Over   *over  `json:"over,omitempty"`   // read: how the run has ended, if it has
	Notice string `json:"notice,omitempty"` // read: what the hub said last
	Wait   bool   `json:"wait,omitempty"`   // store: its tasks are on their way; ask again
	Full   bool   `json:"full,omitempty"`   // report: there is no room for more outputs
	Run    string `json:"run,omitempty"`    // next: it is stored as the tasks of a run; "" for none yet

	then func() // nil, or what to do once it is sent
}

func (o Order) encode() []byte {
	o.Version = Version
	b, _ := json.Marshal(o)
	return b
}

// ask sends an order and returns the answer.
func (s *session) ask(ctx context.Context, subject string, o Order) (a Answer, err error) {
	m, err := s.nc.RequestWithContext(ctx, subject, o.encode())
	if err == nil {
		err = readJSON(m.Data, &a)
	}
	return a, err
}

// obey has carryOut carry out the orders that come on a subject that ends with a user, if not all there are
// may give them. Each has a goroutine of its own, and an answer.
func (s *session) obey(subject string, carryOut func(*Order, *Answer) error) (*nats.Subscription, error) {
	answer := func(m *nats.Msg) {
		var o Order
		var a Answer
		err := errGarbage
		o.from = userIn(m.Subject)
		switch bad := readJSON(m.Data, &o); {
		case bad != nil:
		case o.Version != Version:
			err = &versionError{o.Version}
		default:
			err = carryOut(&o, &a)
		}
		if err != nil {
			a.Err, a.None = err.Error(), a.None || errors.Is(err, errGarbage)
		}
		b, _ := json.Marshal(a)
		outbox.Answer(m, b)
		if a.then != nil {
			a.then()
		}
	}
	return s.nc.Subscribe(subject, func(m *nats.Msg) { go answer(m) })
}

// takes takes messages of others' outboxes, and answers them once take has returned.
func (s *session) takes(subject string, take func(subject string, data []byte)) (*nats.Subscription, error) {
	return s.nc.Subscribe(subject, func(m *nats.Msg) {
		take(m.Subject, m.Data)
		outbox.Answer(m, []byte{'+'})
	})
}

func (o *Order) unknown() error { return fmt.Errorf("there is no order %q", o.Op) }

// done says who has had something done.
func (o *Order) done(what string) error {
	return errors.New(what + " by " + task.Printable(task.Shorten(cmp.Or(o.By, "somebody"), 200)))
}
