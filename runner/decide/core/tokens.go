package core

import "fmt"

// Tokens are places for processes that the run shares with other programs, as by GNU
// make's jobserver. The run may hold some, each for one more running attempt. The
// methods do not wait and are called in the door. answer is called outside of it, once
// for each Ask. The core calls Own alone; Effects.Tokens has the other calls.
type Tokens interface {
	// Own reports whether the tokens are the run's own: it creates one for each slot, and
	// every attempt needs one. With tokens of others one attempt needs none.
	Own() bool
	// Watch sets answer, which learns whether there is a token, or that none will ever
	// come because of err.
	Watch(answer func(got bool, err error))
	Ask()          // for one token
	Withdraw()     // wants the answer at once
	Return(n int)  // tokens that the run holds
	Create(n int)  // tokens, which the run holds
	Destroy(n int) // tokens that the run holds
	// Recount replaces tokens that are lost with whoever held them. Nothing that the run
	// has started may hold any, and no token that Ask brings comes before it is done.
	Recount()
}

// tokens are the run's share of Tokens. The zero value needs none.
type tokens struct {
	on           bool
	own          bool
	held         int
	all          int  // if own: how many there are
	busy         int  // slots with attempts
	needsRecount bool // if own: attempts have run since the last Recount
	short        bool // a task could start now with one more
	requested    bool
	withdrawn    bool // the request

	calls []func(Tokens) // of this step
}

func (t *tokens) queueCall(method func(Tokens)) { t.calls = append(t.calls, method) }

// exempt returns how many busy slots need no token.
func (t *tokens) exempt() int {
	if t.own {
		return 0
	}
	return 1
}

// surplus returns how many tokens of the run no slot needs.
func (t *tokens) surplus() int { return t.held - max(0, t.busy-t.exempt()) }

// allow reports whether an attempt may start in a slot that is idle. If not, the run is
// short of a token.
func (t *tokens) allow() bool {
	t.short = t.on && (t.busy >= t.exempt()+t.held || t.needsRecount && t.busy == 0)
	return !t.short
}

// create creates tokens of the run's own for slots that have joined.
func (t *tokens) create(slots int) {
	if n := slots - t.all; t.own && n > 0 {
		t.all, t.held = t.all+n, t.held+n
		t.queueCall(func(on Tokens) { on.Create(n) })
	}
}

// settle asks for a token if a task waits for one, and returns those that none needs.
// The tokens of the run's own follow the size of the pool. Until an attempt has begun, no
// other program uses them.
func (t *tokens) settle(slots int, begun bool) {
	if !t.on {
		return
	}
	if n := min(t.all-slots, t.surplus()); t.own && n > 0 {
		t.all, t.held = t.all-n, t.held-n
		t.queueCall(func(on Tokens) { on.Destroy(n) })
	}
	if n := t.surplus(); n > 0 && begun {
		t.held -= n
		t.queueCall(func(on Tokens) { on.Return(n) })
	}
	if t.needsRecount && t.busy == 0 {
		t.needsRecount = false
		t.queueCall(Tokens.Recount)
	}
	switch want := t.short || t.own && t.all > slots; {
	case want && !t.requested:
		t.requested = true
		t.queueCall(Tokens.Ask)
	case !want && t.requested && !t.withdrawn:
		t.withdrawn = true
		t.queueCall(Tokens.Withdraw)
	}
}

// Answered takes the answer to an Ask.
func (c *Core) Answered(got bool, err error) {
	t := &c.pool.tokens
	t.requested, t.withdrawn = false, false
	switch {
	case err != nil:
		if t.own && t.held > 0 {
			t.held-- // for the attempt that needs none from now on
		}
		t.own, t.needsRecount = false, false
		t.requested = true // for ever; what is held stays until no slot needs it
		most := "one task"
		if t.held > 0 {
			most = fmt.Sprintf("at most %d tasks", 1+t.held)
		}
		c.output.notice(fmt.Sprintf("no more tokens of the jobserver, so %s at a time: %v", most, err))
	case got:
		t.held++
	}
}
