package wiring

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/cli"
	"crew/runner/control"
	"crew/runner/kernel"
)

// topProgram shows a run on the whole screen. It is a program of its own so that
// crew's start-up does not pay for its terminal library.
const topProgram = "crew-top"

// leaveScreen undoes what crew-top does to a terminal: attributes, character set,
// automatic margins, keypad, the alternate screen and the cursor.
const leaveScreen = "\x1b[0m\x1b(B\x1b[?7h\x1b[?1l\x1b>\x1b[?1049l\x1b[?25h"

// top has crew-top show a run. The terminal is then as it was before, however
// crew-top ended. If this process is killed, crew-top notices and restores the terminal
// itself.
func (c *ctl) top() error {
	if c.JSON {
		return misuse("crew ctl top has a screen to show, no replies", "write crew ctl status --json")
	}
	if strings.HasPrefix(c.Run, cli.EnginePrefix) {
		return misuse("crew ctl top shows runs of this machine", "write crew ctl status --run "+c.Run)
	}
	path, err := findProgram(topProgram, "crew ctl top", engineHint+", or use crew ctl status")
	if err != nil {
		return err
	}
	restore := keepModes()
	state, err := runTop(path, []string{topProgram, "--protocol", strconv.Itoa(control.Version), c.Run}, c.in, c.out, c.errs)
	if err != nil {
		return err
	}
	restore(state.Signaled() || state.ExitStatus() == panicked)
	switch {
	case state.Signaled():
		return fmt.Errorf("%s was killed by %s", topProgram, unix.SignalName(state.Signal()))
	case state.ExitStatus() != statusOK:
		return &failure{status: state.ExitStatus()}
	}
	return nil
}

// panicked is the exit status of a Go program that panicked.
const panicked = 2

// runTop runs crew-top. Meanwhile this process survives what the terminal sends to both,
// and passes on what asks it alone to end.
func runTop(path string, args []string, files ...*os.File) (syscall.WaitStatus, error) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer close(caught)
	defer signal.Stop(caught)
	child, err := os.StartProcess(path, args, &os.ProcAttr{Files: files})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", topProgram, err)
	}
	go func() {
		for sig := range caught {
			if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
				_ = child.Signal(syscall.SIGTERM)
			}
		}
	}()
	state, err := child.Wait()
	if err != nil {
		return 0, fmt.Errorf("wait for %s: %w", topProgram, err)
	}
	return state.Sys().(syscall.WaitStatus), nil
}

// keepModes returns what gives the controlling terminal the modes back that it has now
// and, if torn, undoes what a program has left behind that could not leave the screen
// itself. In the background that does nothing, since the terminal is another's by then.
func keepModes() (restore func(torn bool)) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return func(bool) {}
	}
	fd := int(tty.Fd())
	modes, err := kernel.Modes(fd)
	return func(torn bool) {
		defer tty.Close()
		group, err2 := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil || err2 != nil || group != syscall.Getpgrp() {
			return
		}
		if torn {
			_, _ = tty.WriteString(leaveScreen)
		}
		_ = kernel.SetModes(fd, modes)
	}
}
