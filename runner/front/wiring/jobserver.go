package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/jobserver"
)

// maxShared is the largest number of places in a jobserver: its pipe holds a byte for each.
const maxShared = 64 << 10

// makeTimeout limits the time that make --version may take.
const makeTimeout = 2 * time.Second

// openTokens joins make's jobserver, or creates one for the tasks.
func (w *wiring) openTokens() (err error) {
	o, p := w.opts, &w.plan
	if o.Show.DryRun {
		return nil
	}
	if p.join != nil {
		if w.tokens, err = jobserver.Join(*p.join); err == nil {
			w.onEnd(w.tokens.Close)
			return nil
		}
		text, hint := "one task at a time", "to ignore it, add --jobserver=no"
		if errors.Is(err, jobserver.ErrClosed) {
			hint = "begin the recipe's line with + to share it"
		}
		if typed := o.Workers(); typed != "" {
			text = typed + " holds, in addition to whatever else make runs"
		} else {
			p.jobs = 1
		}
		w.screen.Notice(fmt.Sprintf("make's jobserver cannot be used (%v), so %s: %s", err, text, hint))
	}
	if o.Jobserver.Mode != "share" {
		return nil
	}
	if p.jobs > maxShared {
		return misuse(fmt.Sprintf("--jobserver shares at most %d places", maxShared), "lower -j")
	}
	style := o.Jobserver.Style
	if w.tokens, err = jobserver.Share(os.Getenv("MAKEFLAGS"), max(1, p.jobs), style == "pipe" || style != "fifo" && isOldMake()); err != nil {
		return fmt.Errorf("--jobserver: %w", err)
	}
	w.onEnd(w.tokens.Close)
	return nil
}

// environ returns the environment that tasks inherit.
func (w *wiring) environ() []string {
	env := withoutUnits(os.Environ(), w.opts.Queue.Caps)
	if w.feed != nil || w.worker != nil {
		env = without(env, notifySocket) // tasks must not send notifications for crew
	}
	if w.tokens == nil || w.tokens.Makeflags() == "" {
		return env
	}
	return append(without(env, "MAKEFLAGS", "MFLAGS"), "MAKEFLAGS="+w.tokens.Makeflags())
}

// withoutUnits returns env with empty variables of limits, as a task gets them that needs none of their
// units. It may modify env.
func withoutUnits(env []string, caps []task.Cap) []string {
	for _, c := range caps {
		name := task.CapVariable(c.Name)
		env = append(without(env, name), name+"=")
	}
	return env
}

// without removes variables from env and returns the result. It modifies env.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// isOldMake reports whether the make in PATH is older than GNU make 4.4. Such a make exits if the
// jobserver is a FIFO.
func isOldMake() bool {
	ctx, done := context.WithTimeout(context.Background(), makeTimeout)
	defer done()
	cmd := exec.CommandContext(ctx, "make", "--version")
	cmd.Env, cmd.WaitDelay = []string{}, makeTimeout // make may be a script, and its children may keep the pipe open
	text, _ := cmd.Output()
	var major, minor int
	_, err := fmt.Sscanf(string(text), "GNU Make %d.%d", &major, &minor)
	return err == nil && (major < 4 || major == 4 && minor < 4)
}
