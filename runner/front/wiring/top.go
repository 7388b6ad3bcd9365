package wiring

import (
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// topProgram shows a run on the whole screen. It is a separate program, so that the start of crew does not
// pay for its terminal library.
const topProgram = "crew-top"

// top replaces this process by crew-top.
func (c *ctl) top() error {
	words, err := relayCommand(c.Run)
	if err != nil {
		return err
	}
	args := task.HelperCommand(topProgram, control.Version, append([]string{c.Run}, words...)...)
	return become("crew ctl top", installHint+", or use crew ctl status", args)
}
