package core

import "fmt"

// Tokens are permits to run processes, which crew shares with other programs as GNU make's
// jobserver does. The run takes one for each attempt that it runs, except for one attempt if the
// tokens are not its own. The methods are called under the run's lock and must not wait; answer is
// called without the lock, once for each Ask. All that a step calls precedes the attempts that it
// starts.
type Tokens interface {
	// Own reports whether the tokens are the run's own: it creates one for each slot, and every
	// attempt needs one.
	Own() bool
	// Watch sets the function that takes answers: a token was got or, because of err, none will ever come.
	Watch(answer func(err error))
	Ask()         // for one token, once the Ask before is answered
	Return(n int) // tokens that the run holds
	Create(n int) // tokens, which the run holds; if n is negative, remove such tokens
	// Recount replaces tokens that were lost when their holders died. Nothing that the run has
	// started may hold a token meanwhile, and no token that Ask brings may arrive before Recount is
	// done.
	Recount()
}

// tokens is the run's share of Tokens. The zero value needs none.
type tokens struct {
	Tokens       // nil if the run needs none
	own          bool
	held         int
	all          int  // if own: how many exist
	busy         int  // slots with attempts
	needsRecount bool // if own: attempts have run since the last Recount
	short        bool // with one more, a task could start now
	requested    bool
}

// exempt returns how many busy slots need no token.
func (t *tokens) exempt() int {
	if t.own {
		return 0
	}
	return 1
}

// surplus returns how many held tokens are not needed.
func (t *tokens) surplus() int { return t.held - max(0, t.busy-t.exempt()) }

// allow reports whether an attempt may start in an idle slot. If not, the run is short of a token.
func (t *tokens) allow() bool {
	t.short = t.Tokens != nil && (t.busy >= t.exempt()+t.held || t.needsRecount && t.busy == 0)
	return !t.short
}

// create creates tokens for slots that have joined, if the tokens are the run's own.
func (t *tokens) create(slots int) {
	if n := slots - t.all; t.own && n > 0 {
		t.all, t.held = t.all+n, t.held+n
		t.Create(n)
	}
}

// settle asks for a token if a task waits for one, and returns the tokens that are not needed. The
// number of the run's own tokens follows the number of slots; other programs can use them once an
// attempt has begun.
func (t *tokens) settle(slots int, begun bool) {
	if t.Tokens == nil {
		return
	}
	if n := min(t.all-slots, t.surplus()); t.own && n > 0 {
		t.all, t.held = t.all-n, t.held-n
		t.Create(-n)
	}
	if n := t.surplus(); n > 0 && begun {
		t.held -= n
		t.Return(n)
	}
	if t.needsRecount && t.busy == 0 {
		t.needsRecount = false
		t.Recount()
	}
	if (t.short || t.own && t.all > slots) && !t.requested {
		t.requested = true
		t.Ask()
	}
}

// Answered takes the answer to an Ask. A token that is no longer needed goes back.
func (c *Core) Answered(err error) {
	t := &c.pool.tokens
	if err == nil {
		t.requested = false
		t.held++
		return
	}
	if t.own && t.held > 0 {
		t.held-- // one attempt needs none from now on
	}
	t.own, t.needsRecount = false, false // it never asks again; held tokens stay until no slot needs them
	most := "one task"
	if t.held > 0 {
		most = fmt.Sprintf("at most %d tasks", 1+t.held)
	}
	c.output.notice(fmt.Sprintf("no more tokens from the jobserver, so %s at a time: %v", most, err))
}
