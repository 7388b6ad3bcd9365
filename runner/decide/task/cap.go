package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"crew/sched"
)

// Need is the number of units that a task takes of a named limit while an attempt runs.
type Need = sched.Units

// Cap is a named limit: attempts that run at the same time hold different units of it.
type Cap struct {
	Name  string
	Units []string // the text for each unit, which is Plain; "0", "1" and so on for a count
}

// MostUnits is the number of units of the largest Cap. They take 49 kB in CREW_NAME; Linux limits a
// variable to 128 kB.
const MostUnits = 10_000

// Units are the units of a named limit that an attempt holds.
type Units struct {
	Name string
	Held []string // as in Cap.Units
}

// Rate limits starts: every half-open interval of length Period contains at most N+Burst-1 of them.
// The zero Rate is no limit.
type Rate struct {
	N      int
	Period time.Duration
	Burst  int // at least 1
}

// MaxPriority is the highest priority of a task, and -MaxPriority the lowest.
const MaxPriority = 1000

// Variables are the environment variables that crew sets for each attempt, in addition to the
// variables of named limits.
var Variables = [...]string{
	"CREW_SEQ", "CREW_WORKER", "CREW_ATTEMPT", "CREW_KEY", "CREW_PID", "CREW_HOST", "PARALLEL_SEQ", "PARALLEL_JOBSLOT",
}

// CapVariable returns the name of the variable with the units of a Cap.
func CapVariable(name string) string { return "CREW_" + strings.ToUpper(name) }

// Devices is the Cap of graphics processors. DevicesVariable is the variable that tells programs with
// CUDA which processors to use.
const (
	Devices         = "gpu"
	DevicesVariable = "CUDA_VISIBLE_DEVICES"
)

// IsCapName reports whether s can be the name of a Cap: it begins with a letter, consists of letters,
// digits and underscores, and has no other meaning in braces or in the environment.
func IsCapName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.TrimLeft(s, letters+"0123456789_") != "" || s == "" || strings.IndexByte(letters, s[0]) < 0 {
		return false
	}
	lower := strings.ToLower(s)
	return strings.TrimRight(lower, "0123456789") != "out" && lower != "opts" &&
		!slices.Contains(Variables[:], CapVariable(s))
}

// UnitsOf returns the units of the named limit, separated by commas, or "".
func UnitsOf(name string, all []Units) string {
	for _, u := range all {
		if u.Name == name {
			return strings.Join(u.Held, ",")
		}
	}
	return ""
}

// ParseNeeds parses needs that are separated by commas: a name, and a colon and the number of units
// unless that is 1. The text may be empty. The message of an error continues a sentence that begins
// with the option.
func ParseNeeds(s string) (needs []Need, err error) {
	if s == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		name, count, counts := strings.Cut(item, ":")
		if !counts {
			count = "1"
		}
		n, err := strconv.ParseUint(count, 10, 31)
		if err != nil || n < 1 || !IsCapName(name) {
			return nil, fmt.Errorf("is no list of names such as gpu or db:2,net: %q", Shorten(item, 40))
		}
		needs = append(needs, Need{Name: name, N: int(n)})
	}
	slices.SortFunc(needs, func(a, b Need) int { return strings.Compare(a.Name, b.Name) })
	for i := range needs[1:] {
		if needs[i].Name == needs[i+1].Name {
			return nil, fmt.Errorf("has %s twice: write %[1]s:N for N units", needs[i].Name)
		}
	}
	return needs, nil
}

// CheckNeeds returns why no attempt can ever hold all needs at once, or nil. If hosts is set, hosts may
// offer the units of a name that no Cap has.
func CheckNeeds(caps []Cap, needs []Need, hosts bool) error {
	for _, n := range needs {
		i := slices.IndexFunc(caps, func(c Cap) bool { return c.Name == n.Name })
		switch {
		case i < 0 && !hosts:
			return fmt.Errorf("no --cap is called %s: add --cap %[1]s=N", n.Name)
		case i >= 0 && n.N > len(caps[i].Units):
			return fmt.Errorf("%s:%d is more than the %d of --cap %[1]s", n.Name, n.N, len(caps[i].Units))
		}
	}
	return nil
}

// Holding is units in their JSON form: an array with a string for each name, for instance "gpu:0,1".
// It fits into a journal, which cannot hold nested objects.
type Holding []Units

// MarshalJSON implements json.Marshaler.
func (h Holding) MarshalJSON() ([]byte, error) { return h.append(nil), nil }

func (h Holding) append(b []byte) []byte {
	list := make([]string, len(h))
	for i, u := range h {
		list[i] = u.Name + ":" + strings.Join(u.Held, ",")
	}
	return AppendColumns(b, list)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Holding) UnmarshalJSON(text []byte) error {
	var list []string
	err := json.Unmarshal(text, &list)
	*h = nil
	for _, s := range list {
		name, held, _ := strings.Cut(s, ":")
		*h = append(*h, Units{name, strings.Split(held, ",")})
	}
	return err
}

// NeedsText returns needs in the form that ParseNeeds parses.
func NeedsText(needs []Need) string {
	list := make([]string, len(needs))
	for i, n := range needs {
		if list[i] = n.Name; n.N > 1 {
			list[i] += ":" + strconv.Itoa(n.N)
		}
	}
	return strings.Join(list, ",")
}
