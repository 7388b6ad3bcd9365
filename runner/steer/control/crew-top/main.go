// Command crew-top shows a running crew on the whole screen and controls it. It is started by
// crew ctl top. It is a separate program so that crew itself links no terminal library.
package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gdamore/tcell/v2"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/steer/control"
)

func main() {
	status, err := show()
	if err != nil {
		fmt.Fprintln(os.Stderr, "crew: "+task.Printable(err.Error()))
	}
	os.Exit(status)
}

// show shows the run that the arguments name and returns the exit status. A program and its arguments
// may follow, over which the run is reached.
func show() (int, error) {
	args, err := task.HelperWords(os.Args, control.Version, 1, "crew ctl top")
	if err != nil {
		return 1, err
	}
	var hello control.Hello
	var runs []control.Hello // for the user to choose from
	if args[0] == "" {
		runs = control.List()
	}
	if len(runs) < 2 {
		runs = nil
		if hello, err = control.Find(args[0], args[1:]...); err != nil {
			return 1, err
		}
	}
	screen, err := newScreen()
	if err != nil {
		return 1, err
	}
	a := newApp(screen)
	defer screen.Fini() // also at a panic
	err = errors.Join(kernel.Notify(a.signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTSTP), kernel.Notify(a.continued, syscall.SIGCONT))
	if err != nil {
		return 1, err
	}
	go a.handleSignals()
	if a.runs = runs; runs == nil {
		a.connect(hello)
	}
	if err := a.loop(); err != nil {
		return 1, fmt.Errorf("read the terminal: %w", err)
	}
	if a.signal != 0 {
		return 128 + int(a.signal), nil
	}
	return 0, nil
}

// newScreen takes the terminal.
func newScreen() (tcell.Screen, error) {
	name := os.Getenv("TERM")
	if _, err := kernel.Modes(int(os.Stdout.Fd())); err != nil || name == "dumb" || name == "" {
		return nil, errors.New("this needs a terminal that can place the cursor: use crew ctl status")
	}
	known, err := tcell.LookupTerminfo(name)
	if err != nil {
		return nil, fmt.Errorf("the terminal %s is unknown: set TERM to one that it resembles, or use crew ctl status", name)
	}
	// For an xterm, tcell sets keyboard protocols and a window title, which would stay if this process
	// is killed.
	plain := *known
	plain.Name, plain.XTermLike = "crew-"+name, false
	plain.AltChars = "" // few terminals have all characters that are drawn here
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII)
	screen, err := tcell.NewTerminfoScreenFromTtyTerminfo(nil, &plain)
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return nil, fmt.Errorf("take the terminal: %w: use crew ctl status", err)
	}
	for i, char := range []rune("…" + levels + "░") { // for terminals without Unicode
		screen.RegisterRuneFallback(char, "~_.:-=+*#."[i:i+1])
	}
	return screen, nil
}
