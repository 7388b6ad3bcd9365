package sched

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestScripts runs the scripts in testdata, which explain their own form.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	require.NotEmpty(t, files)
	for _, file := range files {
		for _, part := range strings.Split(crewtest.ReadFile(t, file), "\n== ")[1:] {
			title, body, _ := strings.Cut(part, "\n")
			head, lines, _ := strings.Cut(body, "\n")
			words := strings.Fields(head)
			for name := range strings.SplitSeq(words[0], "|") {
				t.Run(title+"/"+name, func(t *testing.T) {
					s := newScript(t, name, optionsOf(words[1:]))
					for line := range strings.Lines(lines) {
						s.line(strings.TrimSpace(line))
					}
				})
			}
		}
	}
}

// script is a Dispatcher and the items in its slots, oldest first.
type script struct {
	*Dispatcher
	t       *testing.T
	last    uint64
	claims  map[string]*Claim
	stocks  map[string]*[]Units
	items   map[int]*Item
	running []placed
	names   map[uint64]string // of keys
	ended   map[string]int    // by key
}

type placed struct {
	*Item
	slot int
}

// free are limits that allow everything.
var free = Limits{
	Allow: func(time.Time) (bool, time.Time) { return true, time.Time{} }, AllowSlot: func(int) bool { return true },
	Parked: func(*Item, bool) {},
}

func newScript(t *testing.T, name string, o options) *script {
	topics, err := ParseTopics(o.text("topics", "auto"))
	require.NoError(t, err)
	limits := free
	limits.PerKey, limits.Caps = o.number("perkey"), units(0, numbers(o["caps"]))
	return &script{
		t:          t,
		Dispatcher: NewDispatcher(New(name, topics), limits),
		items:      map[int]*Item{}, claims: map[string]*Claim{}, stocks: map[string]*[]Units{}, names: map[uint64]string{}, ended: map[string]int{},
	}
}

// options are words such as cost:3.
type options map[string]string

func optionsOf(words []string) options {
	o := options{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, ":")
		o[name] = value
	}
	return o
}

func (o options) text(name, none string) string {
	if o[name] == "" {
		return none
	}
	return o[name]
}

func (o options) number(name string) int { return numbers(o.text(name, "0"))[0] }

// numbers parses a list such as 1,4-6.
func numbers(list string) (all []int) {
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		from, err := strconv.Atoi(part)
		to := from
		if err != nil {
			_, err = fmt.Sscanf(part, "%d-%d", &from, &to)
		}
		if err != nil {
			panic("not a number: " + part)
		}
		for ; from <= to; from++ {
			all = append(all, from)
		}
	}
	return all
}

// line runs a line, and checks its output against the text after "=>".
func (s *script) line(line string) {
	if line == "" || line[0] == '#' {
		return
	}
	command, want, expects := strings.Cut(line, "=>")
	times, rest, repeated := strings.Cut(strings.TrimPrefix(command, "repeat "), ": ")
	if !repeated {
		times, rest = "1", command
	}
	var got string
	for range numbers(times)[0] {
		for one := range strings.SplitSeq(rest, ";") {
			got = s.do(strings.Fields(one))
		}
	}
	require.True(s.t, !expects || got == strings.TrimSpace(want), "%s: got %s", line, got)
}

func (s *script) do(words []string) string {
	name, arg := words[0], append(words, "")[1]
	switch o := optionsOf(words[1:]); name {
	case "push":
		return s.push(arg, o)
	case "join":
		s.join(numbers(arg), o)
	case "leave":
		for _, id := range numbers(arg) {
			s.Leave(id)
		}
	case "start":
		return s.start(arg)
	case "end":
		s.end(arg)
	case "rest":
		return s.rest()
	case "remove":
		return fmt.Sprint(s.Remove(s.items[numbers(arg)[0]]))
	case "runs":
		return s.runs()
	case "share":
		n := map[string]int{}
		for _, p := range s.running {
			n[s.names[p.Key]]++
		}
		return listed(n)
	case "ended":
		return listed(s.ended)
	case "waits":
		return string(s.Waits(s.items[numbers(arg)[0]]))
	case "choice":
		return fmt.Sprintf("%+v", s.Choice(&Item{ID: 1, Key: Hash(arg), StableKey: StableHash(arg)}))
	default:
		require.Fail(s.t, "unknown command", name)
	}
	return ""
}

func (s *script) join(ids []int, o options) {
	for _, id := range ids {
		at := Slot{ID: id, Places: o.number("cap"), Host: StableHash(o["host"])}
		for label := range strings.SplitSeq(o["labels"], ",") {
			at.Labels = append(at.Labels, Hash(label))
		}
		if all := o["stock"]; all != "" {
			if s.stocks[o["host"]] == nil {
				has := units(len(s.caps), numbers(all))
				s.stocks[o["host"]] = &has
			}
			at.Offers = s.stocks[o["host"]]
		}
		s.Join(at)
	}
}

// push pushes an item of a key, or 8 for a key such as k*8.
func (s *script) push(key string, o options) string {
	key, times, _ := strings.Cut(key, "*")
	s.names[Hash(key)] = key
	for range numbers(times + ",1")[0] {
		s.last++
		cost, _ := strconv.ParseInt(o.text("cost", "1"), 10, 64)
		rank, _ := strconv.ParseInt(o["rank"], 10, 64)
		it := &Item{ID: s.last, Key: Hash(key), StableKey: StableHash(key), Cost: cost, Rank: rank, Claim: s.claim(o["claim"])}
		if s.items[int(s.last)] = it; !s.Push(it) {
			return "refused"
		}
	}
	return ""
}

// claim returns the claim of a text, the same one each time.
func (s *script) claim(text string) *Claim {
	if s.claims[text] == nil && text != "" {
		s.claims[text] = parseClaim(text)
	}
	return s.claims[text]
}

// units returns all[0] units of a limit named by first, all[1] units of the limit named by the next number, and so on.
func units(first int, all []int) (list []Units) {
	for i, n := range all {
		list = append(list, Units{strconv.Itoa(first + i), n})
	}
	return list
}

// parseClaim parses a claim: 3p+2x0 stands for 3 places, and 2 units of limit 0.
func parseClaim(text string) *Claim {
	c := &Claim{}
	for part := range strings.SplitSeq(text, "+") {
		var u Units
		if n, _ := fmt.Sscanf(part, "%dx%s", &u.N, &u.Name); n == 2 {
			c.Units = append(c.Units, u)
		} else {
			c.Places = u.N
		}
	}
	return c
}

// start starts at most so many items, or as many as it can, and returns them with their slots, and
// why the next one waits.
func (s *script) start(most string) string {
	var list []string
	for most == "" || len(list) < numbers(most)[0] {
		it, slot, wait := s.Next(time.Time{})
		if slot == 0 {
			list = append(list, string(wait))
			break
		}
		s.running = append(s.running, placed{it, slot})
		list = append(list, fmt.Sprintf("%d@%d", it.ID, slot))
	}
	return strings.Join(list, " ")
}

// end ends the oldest item of the given slots, if there is one, the oldest of all items, or all items.
func (s *script) end(which string) {
	ends := func(i int) {
		p := s.running[i]
		s.Done(p.slot, p.Item, false)
		s.ended[s.names[p.Key]]++
		s.running = slices.Delete(s.running, i, i+1)
	}
	switch which {
	case "all":
		for len(s.running) > 0 {
			ends(0)
		}
	case "oldest":
		ends(0)
	default:
		for _, slot := range numbers(which) {
			if i := slices.IndexFunc(s.running, func(p placed) bool { return p.slot == slot }); i >= 0 {
				ends(i)
			}
		}
	}
}

// rest runs all remaining items one after another, and returns them.
func (s *script) rest() string {
	var ids []string
	for s.start("1"); len(s.running) > 0; s.start("1") {
		ids = append(ids, fmt.Sprint(s.running[0].ID))
		s.end("oldest")
	}
	return strings.Join(ids, " ")
}

// runs returns which slots run items of each key.
func (s *script) runs() string {
	on := map[string][]int{}
	for _, p := range s.running {
		on[s.names[p.Key]] = append(on[s.names[p.Key]], p.slot)
	}
	for _, slots := range on {
		slices.Sort(slots)
	}
	return listed(on)
}

// listed formats a map as fmt does, but without the braces.
func listed(m any) string { return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(m), "map["), "]") }
