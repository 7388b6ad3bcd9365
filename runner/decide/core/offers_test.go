package core

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// offers adds n slots of a host that offers units.
func (s *sim) offers(n int, host, list string) []int {
	o, err := task.ParseNeeds(list)
	require.NoError(s.t, err)
	return s.ask(task.Command{Op: task.Join, N: n, Slot: task.Slot{Host: host, Offers: &o}}).Slots
}

// needing gives each task the needs that follow from its number.
func needing(of func(id uint64) string) func(*sim) {
	known := map[string]*task.Terms{}
	return func(s *sim) {
		s.change = func(t *task.Task) {
			text := of(t.ID)
			if text != "" && known[text] == nil {
				needs, err := task.ParseNeeds(text)
				require.NoError(s.t, err)
				known[text] = &task.Terms{Needs: needs}
			}
			t.Asked = known[text]
		}
	}
}

// needed returns how many units of a name the running tasks of a host need.
func (s *sim) needed(host, name string) (n int) {
	for _, r := range s.running {
		for _, need := range r.Task.Terms().Needs {
			if r.Slot.Host == host && need.Name == name {
				n += need.N
			}
		}
	}
	return n
}

// TestOffersRandom checks, while hosts come, leave and die, that no host has to supply more than it
// offers, and that no unit is idle while its host has a free slot and a task waits for the unit.
func TestOffersRandom(t *testing.T) {
	for seed := range uint64(40) {
		n := rand.New(rand.NewPCG(seed, 2))
		all := map[string]map[string]int{"a": {"gpu": 2}, "b": {"gpu": 1, "mem": 8}, "c": {"mem": 5}, "d": {}}
		lists := map[string]string{"a": "gpu:2", "b": "gpu,mem:8", "c": "mem:5", "d": ""}
		texts := []string{"", "", "gpu", "mem:5", "mem", "gpu,mem:2", "db,gpu"}
		if seed%2 == 0 {
			texts = []string{"", "gpu"} // so that nothing is reserved for a task that needs more
		}
		cfg := remote("fifo")
		cfg.Queue.Buffer, cfg.Queue.Caps = 1000, []task.Cap{{Name: "db", Units: []string{"x", "y"}}}
		s := simulate(t, cfg, 300, needing(func(uint64) string { return texts[n.IntN(len(texts))] }), func(s *sim) {
			s.do = func(a task.Attempt) (time.Duration, task.Outcome) {
				for _, need := range a.Task.Terms().Needs {
					if need.Name != "db" {
						require.LessOrEqual(t, s.needed(a.Slot.Host, need.Name)+need.N, all[a.Slot.Host][need.Name], "%d", seed)
					}
				}
				require.LessOrEqual(t, len(a.Units), 1, "units of hosts are given out there")
				return time.Duration(1+n.IntN(3000)) * time.Millisecond, task.OK
			}
		})
		slots := map[string][]int{}
		for !s.over {
			for host, list := range lists {
				switch {
				case n.IntN(8) > 0:
				case slots[host] == nil:
					slots[host] = s.offers(1+n.IntN(3), host, list)
				case s.now.Sub(epoch) < 5*time.Minute:
					s.leave(slots[host])
					slots[host] = nil
					s.die(host) // its units disappear with it
				}
			}
			s.sleep(time.Duration(1+n.IntN(2000)) * time.Millisecond)
			if seed%2 > 0 {
				continue
			}
			waits := false
			for _, e := range s.core.entries {
				waits = waits || e.state.isWaiting() && e.state != delayed && len(e.task.Terms().Needs) > 0
			}
			for host, ids := range slots {
				busy := 0
				for _, r := range s.running {
					if r.Slot.Host == host {
						busy++
					}
				}
				require.False(t, waits && busy < len(ids) && s.needed(host, "gpu") < all[host]["gpu"], "%d: host %s is idle", seed, host)
			}
		}
		require.EqualValues(t, 300, s.wait().Stats.Finished())
		require.Empty(t, s.core.queue.caps.held)
	}
}
