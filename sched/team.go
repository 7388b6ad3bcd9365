package sched

// team is a topic, or all topics that share workers, and the workers that are
// at home there.
type team struct {
	pool
	key   uint64
	named bool // key is its topic; not so for the rest and the spare workers
	order int  // of coming to be, for ties

	want   int  // how many workers it is due; 0 for every team while there are too few
	limit  int  // the most it may ever be due
	weight int  // its share: the workers it asked for, or what it had outstanding
	most   int  // the most it may be due in this division
	needy  bool // it is in the policy's list of those
	slot   int  // in the policy's teams

	// places in heaps of the policy

	ready, dormant, share int
}

// have is how many workers are at home there, whatever they still run.
func (t *team) have() int { return t.load.Len() }

// running is how many of them are busy.
func (t *team) running() int { return t.load.Len() - t.idle.Len() }

// needs says whether it has a claim to a worker: fewer than it is due, or none
// at all and something to do.
func (t *team) needs() bool {
	return t.have() < t.want || t.have() == 0 && t.n > 0
}

// surplus says whether one of its workers may go where there is need.
func (t *team) surplus() bool { return t.have() > t.want }

// quotient is weight/(want+1) as a fixed-point number.
func (t *team) quotient() int64 { return int64(t.weight) << 24 / int64(t.want+1) }

// apportion shares n workers out: one to each team as far as they go round,
// the others one by one to the team with the highest weight/(want+1), up to
// its most (the method of D'Hondt). Where the weights sum up to n each team
// gets its weight. It returns how many are left.
func apportion(teams []*team, n int) int {
	shares := NewHeap(func(t *team) *int { return &t.share })
	for _, t := range teams {
		t.want = 0
		if n > 0 {
			t.want, n = 1, n-1
		}
		if t.weight > 0 && t.want < t.most {
			shares.Update(t, -t.quotient(), int64(t.order))
		}
	}
	for n > 0 && shares.Len() > 0 {
		t := shares.Min()
		t.want, n = t.want+1, n-1
		if t.want < t.most {
			shares.Update(t, -t.quotient(), int64(t.order))
		} else {
			shares.Remove(t)
		}
	}
	for shares.Len() > 0 {
		shares.Remove(shares.Min())
	}
	return n
}
