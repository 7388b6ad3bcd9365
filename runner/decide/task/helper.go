package task

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// HelperCommand returns the argument vector with which crew starts a helper program: words after the version of
// their form.
func HelperCommand(program string, version int, words ...string) []string {
	return append([]string{program, "--protocol", strconv.Itoa(version)}, words...)
}

// HelperWords returns the words of an argument vector that HelperCommand has made. It returns an error if that
// has another version, or fewer words than least. verbs are the commands of crew that start the program.
func HelperWords(args []string, version, least int, verbs string) ([]string, error) {
	program := filepath.Base(args[0])
	if len(args) < 3+least || args[1] != "--protocol" {
		return nil, fmt.Errorf("%s is started by crew: write %s", program, verbs)
	}
	if args[2] != strconv.Itoa(version) {
		return nil, fmt.Errorf("crew speaks version %s of its protocol and %s version %d: install both from the same source", args[2], program, version)
	}
	return args[3:], nil
}
