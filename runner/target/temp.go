package target

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"crew/runner/task"
)

// What begins a temporary name: tempStart, the digits of its number, and a dot.
const (
	tempStart = ".crew-"
	digits    = task.TempLen - len(tempStart) - len(".")
	numbers   = 36 * 36 * 36 * 36 * 36 * 36 * 36 * 36 // 36 to the power of digits
)

// newTemp returns a number that nobody uses, and the beginning of its temporary names.
func newTemp() (n uint64, temp string) {
	n = rand.Uint64N(numbers)
	return n, tempName(n)
}

// tempName returns the beginning of the temporary names of a number, which is also the name
// of the file that marks it, where marks are files.
func tempName(n uint64) string {
	s := strconv.FormatUint(n, 36)
	return tempStart + strings.Repeat("0", digits-len(s)) + s + "."
}

// parseTemp takes a temporary name apart. The base of the file of a mark is "".
func parseTemp(name string) (n uint64, base string, ok bool) {
	if len(name) < task.TempLen || name[:len(tempStart)] != tempStart || name[task.TempLen-1] != '.' {
		return 0, "", false
	}
	number := name[len(tempStart) : task.TempLen-1]
	n, err := strconv.ParseUint(number, 36, 64)
	return n, name[task.TempLen:], err == nil && strings.ToLower(number) == number
}
