package core

// basket is Tokens that other programs also take and bring.
type basket struct {
	own     bool
	there   int // tokens that are free
	held    int // by the run
	all     int // if own
	asked   bool
	asks    int
	answers []func(*Core) // to Ask
}

func (b *basket) Own() bool         { return b.own }
func (b *basket) Watch(func(error)) {}
func (b *basket) Ask()              { b.asked = true; b.asks++ }
func (b *basket) Return(n int)      { b.held -= n; b.there += n }
func (b *basket) Create(n int)      { b.held += n; b.all += n }
func (b *basket) Recount()          { b.there = b.all - b.held }

func (b *basket) answer(err error) {
	if b.asked {
		b.asked = false
		b.answers = append(b.answers, func(c *Core) { c.Answered(err) })
	}
}

// give gives the token that was asked for, if there is one, and returns the answers for the core.
func (b *basket) give() (answers []func(*Core)) {
	if b.held < 0 || b.there < 0 {
		panic("returned more tokens than it held")
	}
	if b.asked && b.there > 0 {
		b.there, b.held = b.there-1, b.held+1
		b.answer(nil)
	}
	answers, b.answers = b.answers, nil
	return answers
}

// share lets other programs bring n tokens to the basket or, if n is negative, take them.
func (s *sim) share(n int) {
	s.tokens.there += n
	s.step(func(*Core) {})
}
