package cli

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"crew/runner/decide/task"
)

// addOffers adds several limits, which are separated by commas, like the units of a limit.
func addOffers(value string, caps []task.Cap) (_ []task.Cap, err error) {
	ends := regexp.MustCompile(`(=[^,]*),|,([^,=:]*[=:])`)
	for c := range strings.SplitSeq(ends.ReplaceAllString(value, "$1\n$2"), "\n") {
		if err == nil {
			caps, err = addCap(c, caps)
		}
	}
	return caps, err
}

// addCap adds a limit by name. Names of limits must differ in more than case.
func addCap(value string, caps []task.Cap) ([]task.Cap, error) {
	c, err := parseCap(value)
	same := func(other task.Cap) bool { return strings.EqualFold(other.Name, c.Name) }
	if i := slices.IndexFunc(caps, same); err == nil && i >= 0 {
		err = fmt.Errorf("there is already %s, and both would set %s", caps[i].Name, task.CapVariable(c.Name))
	}
	return append(caps, c), err
}

// maxList is the largest length of a list of units, which has to fit into an environment variable.
const maxList = 64 << 10

// parseCap parses NAME=N, or NAME and a list of units: NAME:UNIT,UNIT.
func parseCap(s string) (c task.Cap, err error) {
	end := strings.IndexAny(s, "=:")
	if end < 0 {
		return c, errors.New("write NAME=N or NAME:UNIT,UNIT, such as gpu=3 or gpu:0,1,3")
	}
	list := s[end+1:]
	if c.Name = s[:end]; !task.IsCapName(c.Name) {
		return c, errors.New("write a name of letters, digits and _ that begins with a letter and that no other {name} or CREW_NAME uses")
	}
	if s[end] == '=' {
		n, err := parseWhole(list, 1, task.MostUnits)
		if err != nil {
			err = fmt.Errorf("%w; for more units, let one stand for several", err)
		}
		for i := range n {
			c.Units = append(c.Units, strconv.Itoa(i))
		}
		return c, err
	}
	c.Units = strings.Split(list, ",")
	for i, u := range c.Units {
		switch {
		case u == "" || !task.Plain(u):
			return c, fmt.Errorf("write units of letters, digits, dots, hyphens and _, with commas between them: %s is not one", task.Quote(task.Shorten(u, 40)))
		case slices.Contains(c.Units[:i], u):
			return c, fmt.Errorf("write each unit once: %s is there twice", u)
		case len(c.Units) > task.MostUnits || len(list) > maxList:
			return c, fmt.Errorf("write at most %d units, in %d bytes", task.MostUnits, maxList)
		}
	}
	return c, nil
}

// maxRate is the largest number of starts in a rate.
const maxRate = 1_000_000

// parseRate parses N/PERIOD or N/PERIOD,burst=B.
func parseRate(s string) (r task.Rate, err error) {
	hint := errors.New("write up to 1000000 starts and a time, such as 100/s, 5000/h or 10/1m30s,burst=5")
	part := regexp.MustCompile(`^([^/]+)/(?:([smhd])|([^,]+))(?:,burst=(.+))?$`).FindStringSubmatch(s)
	if part == nil {
		return r, hint
	}
	var wrong [3]error
	r.N, wrong[0] = parseWhole(part[1], 1, maxRate)
	r.Period, wrong[1] = task.ParseDuration(cmp.Or(part[3], "1"+part[2]))
	r.Burst, wrong[2] = parseWhole(cmp.Or(part[4], "1"), 1, maxRate)
	if errors.Join(wrong[:]...) != nil || r.Period == 0 {
		return task.Rate{}, hint
	}
	return r, nil
}

// Amount is a number, or a percentage of something.
type Amount struct {
	N       float64
	Percent bool
}

// Of returns the amount, where 100% is all.
func (a Amount) Of(all float64) float64 {
	if a.Percent {
		return a.N * all / 100
	}
	return a.N
}

// parseLoad parses a number of processes, or a percentage of the processors.
func parseLoad(s string) (Amount, error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.Trim(digits, "0123456789.") != "" || n <= 0 || n > 1<<20 {
		return Amount{}, errors.New("write a number of processes such as 8 or 1.5, or a percentage of the processors such as 75%")
	}
	return Amount{n, percent}, nil
}

// parseMemFree parses a size, or a percentage of the memory.
func parseMemFree(s string) (Amount, error) {
	if digits, percent := strings.CutSuffix(s, "%"); percent {
		n, err := parseWhole(digits, 1, 99)
		if err != nil {
			return Amount{}, errors.New("write 1% to 99% of the memory, or a size such as 2G")
		}
		return Amount{float64(n), true}, nil
	}
	n, err := task.ParseSize(s)
	if err != nil {
		err = fmt.Errorf("%w, or a percentage of the memory such as 10%%", err)
	}
	return Amount{N: float64(n)}, err
}
