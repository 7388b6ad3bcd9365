package runner

import (
	"fmt"

	"crew/runner/task"
)

// Tokens are places for processes that the run shares with other programs, as by GNU
// make's jobserver. The run may hold some, each for one more running attempt. The
// methods do not wait and are called in the door. answer is called outside of it, once
// for each Ask.
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

// tokens are what the run holds of Tokens. The zero value needs none.
type tokens struct {
	on        bool
	own       bool
	held      int
	all       int   // if own: how many there are
	attempts  []int // by slot
	busy      int   // slots with attempts
	stale     bool  // if own: attempts have run since the last Recount
	short     bool  // a task could start now with one more
	asked     bool
	withdrawn bool // the request
}

// hold counts n more attempts in a slot.
func (t *tokens) hold(slot, n int) {
	if !t.on {
		return
	}
	for slot >= len(t.attempts) {
		t.attempts = append(t.attempts, 0)
	}
	before := t.attempts[slot]
	t.attempts[slot] += n
	if before == 0 {
		t.busy++
		t.stale = t.own
	} else if before+n == 0 {
		t.busy--
	}
}

// free returns how many busy slots need no token.
func (t *tokens) free() int {
	if t.own {
		return 0
	}
	return 1
}

// surplus returns how many tokens of the run no slot needs.
func (t *tokens) surplus() int { return t.held - max(0, t.busy-t.free()) }

// allow reports whether an attempt may start in a slot. If not, the run is short of a
// token.
func (t *tokens) allow(slot int) bool {
	recount := t.stale && t.busy == 0
	t.short = t.on && (t.busy >= t.free()+t.held || recount) && (slot >= len(t.attempts) || t.attempts[slot] == 0)
	return !t.short
}

// nextBeside is next where only slots that are busy may have more attempts.
func (c *core) nextBeside() (*entry, bool) {
	if c.cfg.Pool.Window < 2 {
		return nil, false
	}
	for slot, n := range c.tokens.attempts {
		if n == 0 {
			continue
		}
		if it, ok := c.policy.Pop(slot); ok {
			e := c.entries[it.ID]
			c.begin(e, c.slots[slot])
			return e, true
		}
	}
	return nil, false
}

// answered takes the answer to a request.
func (c *core) answered(got bool, err error) {
	t := &c.tokens
	t.asked, t.withdrawn = false, false
	switch {
	case err != nil:
		if t.own && t.held > 0 {
			t.held-- // for the attempt that needs none from now on
		}
		t.own, t.stale = false, false
		t.asked = true // for ever; what is held stays until no slot needs it
		most := "one task"
		if t.held > 0 {
			most = fmt.Sprintf("at most %d tasks", 1+t.held)
		}
		c.emit(task.Event{Kind: task.Notice, Text: fmt.Sprintf("no more tokens of the jobserver, so %s at a time: %v", most, err)})
	case got:
		t.held++
	}
}

// settle asks for a token if a task waits for one, and returns those that none needs.
// The tokens of the run's own follow the size of the pool.
func (r *Run) settle() {
	c, t, pool := r.core, &r.core.tokens, r.core.cfg.Pool.Tokens
	if !t.on {
		return
	}
	slots := c.capacity / max(1, c.cfg.Pool.Window)
	if n := slots - t.all; t.own && n > 0 {
		pool.Create(n)
		t.all, t.held = t.all+n, t.held+n
		r.start(nil)
	}
	if n := min(t.all-slots, t.surplus()); t.own && n > 0 {
		pool.Destroy(n)
		t.all, t.held = t.all-n, t.held-n
	}
	// Before the first attempt nobody else is there to use them.
	if n := t.surplus(); n > 0 && !c.stats.First.IsZero() {
		pool.Return(n)
		t.held -= n
	}
	if t.stale && t.busy == 0 {
		t.stale = false
		pool.Recount()
	}
	switch want := t.short || t.own && t.all > slots; {
	case want && !t.asked:
		t.asked = true
		pool.Ask()
	case !want && t.asked && !t.withdrawn:
		t.withdrawn = true
		pool.Withdraw()
	}
}
