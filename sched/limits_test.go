package sched

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// limits are the limits of a driver, with what is needed to check them.
type limits struct {
	Limits
	limited  bool
	rate     rateModel
	keyRate  rateModel
	claims   []*Claim
	stocks   [hostsUsed]*[]Units // of the hosts
	granted  []holding           // items that have not started, with ReportsStarts
	starts   []time.Time
	startsOf map[uint64][]time.Time // of each key
}

// rateModel is a rate in the user's terms.
type rateModel struct {
	n, burst int
	period   time.Duration
}

func (w rateModel) rate() Rate { return NewRate(w.n, w.period, w.burst) }

// check checks that no interval that ends with the latest start has too many starts.
func (w rateModel) check(t *testing.T, starts []time.Time) {
	if most := w.n + w.burst - 1; w.n > 0 && len(starts) > most {
		last := starts[len(starts)-1]
		holds(t, last.After(starts[len(starts)-1-most].Add(w.period)), "%d starts within %v", most+1, w.period)
	}
}

func someWindow(r *rand.Rand) rateModel {
	if r.IntN(2) == 0 {
		return rateModel{}
	}
	return rateModel{1 + r.IntN(5), 1 + r.IntN(4), time.Duration(1+r.IntN(40)) * time.Millisecond}
}

// someLimits returns limits, and claims on them. Claims of several places, or of units of hosts,
// are only for policies in which every slot takes every item: shared.
func someLimits(r *rand.Rand, shared bool) limits {
	l := limits{limited: true, rate: someWindow(r), keyRate: someWindow(r), startsOf: map[uint64][]time.Time{}}
	l.Limits = Limits{
		PerKey: r.IntN(4), Rate: l.rate.rate(), KeyRate: l.keyRate.rate(), Delay: Rate{Every: time.Duration(r.IntN(2)*r.IntN(10)) * time.Millisecond}, ReportsStarts: r.IntN(2) == 0,
	}
	claim := func(texts string) {
		for text := range strings.FieldsSeq(texts) {
			l.claims = append(l.claims, parseClaim(text))
		}
	}
	l.claims = make([]*Claim, 3)
	own := r.IntN(2) == 0
	if own {
		l.Caps = units(0, []int{1, 3, 5})
		claim("1x0 2x1 1x1+3x2")
	}
	if shared && r.IntN(2) == 0 {
		claim("3p 100p")
		if own {
			claim("2p+2x1")
		}
	}
	if shared && r.IntN(2) == 0 {
		for host, all := range [...][]int{{1, 4}, {2}, {3, 1}} {
			has := units(len(l.Caps), all)
			l.stocks[host] = &has
		}
		if own {
			claim("1x3 4x4 1x3+2x4 2p+1x3 1x5")
		} else {
			claim("1x0 4x1 1x0+2x1 2p+1x0 1x2")
		}
	}
	return l
}

// taken returns how many units of a limit the running items hold; of a limit of hosts, in one
// stock.
func (d *driver) taken(limit string, of *[]Units) (n int) {
	for _, h := range d.running {
		if h.Claim == nil || of != nil && h.stock != of {
			continue
		}
		for _, u := range h.Claim.Units {
			if u.Name == limit {
				n += u.N
			}
		}
	}
	return n
}

// offered returns the units of a stock, which may be nil.
func offered(stock *[]Units) []Units {
	if stock == nil {
		return nil
	}
	return *stock
}

// exceeds reports whether c claims more units of hosts than a stock has or, with left, than it has
// left.
func (d *driver) exceeds(stock *[]Units, c *Claim, left bool) bool {
	return c != nil && slices.ContainsFunc(c.Units, func(u Units) bool {
		all := 0
		for _, has := range offered(stock) {
			if has.Name == u.Name {
				all = has.N
			}
		}
		if left {
			all -= d.taken(u.Name, stock)
		}
		return d.d.caps[u.Name] == nil && u.N > all
	})
}

// widest returns how many places the largest host with the claimed units has.
func (d *driver) widest(c *Claim) (most int) {
	var of [len(d.stocks)]int
	for _, id := range d.w.ids {
		if s := d.w.slots[id]; !d.exceeds(s.Offers, c, false) {
			of[s.Host] += d.w.cap(id)
			most = max(most, of[s.Host])
		}
	}
	return most
}

// checkStart checks that all limits hold after the start of an item.
func (d *driver) checkStart(h *holding) {
	want := 1
	if h.Claim.wide() {
		want = min(h.Claim.Places, d.widest(h.Claim))
	}
	holds(d.t, h.places == want, "%d places for %+v", h.places, h.Claim)
	if !d.limited {
		return
	}
	if d.granted = append(d.granted, *h); !d.ReportsStarts {
		d.reportStarted(0)
	}
	for _, u := range d.Caps {
		holds(d.t, d.taken(u.Name, nil) <= u.N, "too many of %v", u)
	}
	for _, u := range offered(h.stock) {
		holds(d.t, d.taken(u.Name, h.stock) <= u.N, "too many of %v of a host", u)
	}
	holds(d.t, !d.exceeds(h.stock, h.Claim, false), "the host does not have %+v", h.Claim)
	beside := 0
	for _, o := range d.running {
		if o.Key == h.Key {
			beside++
		}
	}
	holds(d.t, d.PerKey == 0 || beside <= d.PerKey, "%d of a key", beside)
}

// reportStarted reports the start of a granted item.
func (d *driver) reportStarted(i int) {
	h := cut(&d.granted, i)
	if d.ReportsStarts {
		d.d.Started(d.now, h.Item)
	}
	d.starts, d.startsOf[h.Key] = append(d.starts, d.now), append(d.startsOf[h.Key], d.now)
	rateModel{1, 1, d.Delay.Every - 1}.check(d.t, d.starts)
	d.rate.check(d.t, d.starts)
	d.keyRate.check(d.t, d.startsOf[h.Key])
}

// checkIdle checks that nothing could start.
func (d *driver) checkIdle(wait Wait) {
	switch wait {
	case ForDelay, ForRate:
		again := d.d.Again()
		holds(d.t, (d.now.Before(again) || again.IsZero() && len(d.granted) > 0) && len(d.queued) > 0, "wrong time to ask again: %v", again)
		return
	case ForPlaces:
		holds(d.t, d.d.ReservedFor() > 0, "no places are reserved")
		return
	case ForToken:
		holds(d.t, d.refused != bySlot[bool]{}, "all slots may take any")
	}
	for _, it := range d.queued {
		if !d.shared && it.queue.line == nil {
			continue
		}
		for _, id := range d.w.ids {
			free := d.w.cap(id) > d.d.slots.byID[id].held && (d.shared || d.d.fits(it, id))
			holds(d.t, !free || d.refused[id] || d.mustWait(it, d.d.slots.byID[id].host), "item %v could start on slot %d", it, id)
		}
	}
}

// mustWait reports whether an item has to wait although there is a place for it on a host.
func (d *driver) mustWait(it *Item, h *host) bool {
	if g := d.d.byKey[it.Key]; g != nil && d.d.gateWait(g) != ForSlot {
		return true
	}
	if it.Claim == nil {
		return false
	}
	for _, u := range it.Claim.Units {
		if own := d.d.caps[u.Name]; own != nil && (own.taken+u.N > own.all || d.d.reserved[own] != nil) {
			return true
		}
	}
	kept := d.d.reserved[h] != nil || slices.ContainsFunc(it.Claim.Units, func(u Units) bool { return d.d.reserved[d.d.counter(u.Name, h)] != nil })
	n := d.d.slots.places(h.ids)
	return kept || n.all-n.taken < max(1, min(it.Claim.Places, d.widest(it.Claim))) || d.exceeds(h.offers, it.Claim, true)
}
