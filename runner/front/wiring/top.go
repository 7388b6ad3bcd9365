package wiring

import (
	"os"
	"strconv"
	"syscall"

	"crew/runner/steer/control"
)

// topProgram shows a run on the whole screen. It is a separate program, so that the start of crew does not
// pay for its terminal library.
const topProgram = "crew-top"

// top replaces this process by crew-top.
func (c *ctl) top() error {
	if c.JSON {
		return misuse("crew ctl top has a screen to show, no replies", "write crew ctl status --json")
	}
	words, err := relayCommand(c.Run)
	if err != nil {
		return err
	}
	args := append([]string{topProgram, "--protocol", strconv.Itoa(control.Version), c.Run}, words...)
	path, err := findProgram(topProgram, "crew ctl top", engineHint+", or use crew ctl status")
	if err != nil {
		return err
	}
	return &os.PathError{Op: "execute", Path: path, Err: syscall.Exec(path, args, os.Environ())}
}
