package expand

import (
	"errors"
	"fmt"
	"strings"

	"crew/runner/task"
)

// check says what a value must be where it stands.
type check uint8

const (
	anything check = iota
	number         // an integer, which the shell evaluates
	noOption       // no option, which would be evaluated
)

// maxDigits is the number of digits that fit every shell's arithmetic.
const maxDigits = 18

// verify returns an error if s is not what it must be.
func (c check) verify(s string) error {
	switch c {
	case number:
		if strings.Contains(s, tempMark) {
			return errors.New("the name of a file, but only a decimal number can stand there")
		}
		digits := strings.TrimPrefix(s, "-")
		switch {
		case digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0':
			return fmt.Errorf("%q, but only a decimal number can stand there", task.Shorten(s, 100))
		case len(digits) > maxDigits:
			return fmt.Errorf("%q, but a number can have %d digits at most there", task.Shorten(s, 100), maxDigits)
		}
	case noOption:
		if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			return fmt.Errorf("%q, which would be an option there: write ./ before the name of a file", task.Shorten(s, 100))
		}
	}
	return nil
}
