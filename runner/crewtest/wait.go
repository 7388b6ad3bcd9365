// Package crewtest holds helpers that the tests of several packages share, above all the one way to
// wait for a condition and the one way to run a program beside a test. Only tests import it.
package crewtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"crew/runner/exec/kernel"
)

// Patience is how long a test waits for something that must happen. It is far longer than that takes on
// a busy machine.
const Patience = 3 * time.Minute

// A Failer can end a test: a testing.TB, or the script of a testscript.
type Failer interface {
	Fatalf(format string, args ...any)
}

// Seen returns the current state that a test observes. As an argument of Until it is called only once
// the test has failed.
type Seen func() string

// String returns s().
func (s Seen) String() string { return s() }

// Until waits until ok returns true. If that takes too long, it fails the test with a message that
// names the condition, formatted from what and args.
func Until(t Failer, ok func() bool, what string, args ...any) {
	if h, is := t.(testing.TB); is {
		h.Helper()
	}
	limit := Patience
	if Soaking() {
		limit *= 10
	}
	if !kernel.Poll(limit, ok) {
		t.Fatalf("waited in vain for %s", fmt.Sprintf(what, args...))
	}
}

// Receive returns the next value from a channel. It fails the test if none arrives.
func Receive[T any](t Failer, from <-chan T, what string) (v T) {
	if h, is := t.(testing.TB); is {
		h.Helper()
	}
	Until(t, func() bool {
		select {
		case v = <-from:
			return true
		default:
			return false
		}
	}, "%s", what)
	return v
}

// Exists waits until a file exists.
func Exists(t Failer, path string) {
	Until(t, func() bool { _, err := os.Stat(path); return err == nil }, "%s", path)
}

// PID waits until a file holds a process ID on a line of its own, and returns it.
func PID(t Failer, path string) (pid int) {
	Until(t, func() bool {
		text, err := os.ReadFile(path)
		if err == nil && bytes.HasSuffix(text, []byte("\n")) {
			pid, err = strconv.Atoi(string(text[:len(text)-1]))
		}
		return err == nil && pid > 0
	}, "the ID of a process in %s", path)
	return pid
}

// State returns the state of a process as ps(1) shows it, such as S or T. It is Z for a process that
// has ended, reaped or not.
func State(pid int) string {
	if runtime.GOOS != "linux" {
		state, _ := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
		return (strings.TrimSpace(string(state)) + "Z")[:1]
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, rest, found := strings.Cut(string(stat), ") "); err == nil && found && rest[0] != 'X' {
		return rest[:1]
	}
	return "Z"
}

// Alive reports whether a process has not ended.
func Alive(pid int) bool { return State(pid) != "Z" }

// Gone waits until processes have ended, reaped or not.
func Gone(t Failer, pids ...int) {
	for _, pid := range pids {
		Until(t, func() bool { return !Alive(pid) }, "the end of process %d", pid)
	}
}
