package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"crew/runner/task"
)

// Machine configures when too much is going on on this machine to start more.
type Machine struct {
	Load    Amount // of processes that have something to do; zero for no bound
	MemFree Amount // of free bytes; zero for no bound
}

// Amount is a number, or a percentage of something.
type Amount struct {
	N       float64
	Percent bool
}

// Of returns the amount, of which all is the whole.
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
		return Amount{}, errors.New("write a number of processes such as 8 or 1.5, or such as 75% of the processors")
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
		err = fmt.Errorf("%w, or such as 10%% of the memory", err)
	}
	return Amount{N: float64(n)}, err
}

// OnlyMemory reports whether the outcome of attempts that were ended for memory is all there is in
// the list.
func (on RetryOn) OnlyMemory() bool {
	return on.Has(task.Memory) && !on.Any && len(on.Exit)+len(on.Outcomes) == 1
}
