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
	"crew/runner/front/cli"
)

// mostShared is how many places a jobserver can have: as many bytes fit a pipe.
const mostShared = 64 << 10

// makeTime is how long the make in PATH may take to say its version.
const makeTime = 2 * time.Second

// openTokens joins make's jobserver, or opens one for the tasks.
func (w *wiring) openTokens() (err error) {
	w.tokens, err = tokensOf(w.opts, &w.plan, w.screen.Notice)
	if w.tokens != nil {
		w.close = append(w.close, w.tokens.Close)
	}
	return err
}

// tokensOf returns the tokens of a run, or nil if its places are shared with nobody.
func tokensOf(o *cli.Options, p *plan, notice func(string)) (tokens *jobserver.Tokens, err error) {
	if o.Show.DryRun {
		return nil, nil
	}
	if p.join != nil {
		if tokens, err = jobserver.Join(*p.join); err == nil {
			return tokens, nil
		}
		text, hint := "one task at a time", "to ignore it, add --jobserver=no"
		if errors.Is(err, jobserver.ErrClosed) {
			hint = "begin the recipe's line with + to share it"
		}
		if typed := o.Workers(); typed != "" {
			text = typed + " holds, beside whatever else make runs"
		} else {
			p.jobs = 1
		}
		notice(fmt.Sprintf("the jobserver of make cannot be used (%v), so %s: %s", err, text, hint))
	}
	if o.Jobserver.Mode != "share" {
		return nil, nil
	}
	if p.jobs > mostShared {
		return nil, misuse(fmt.Sprintf("--jobserver shares at most %d places", mostShared), "lower -j")
	}
	style := o.Jobserver.Style
	if tokens, err = jobserver.Share(os.Getenv("MAKEFLAGS"), max(1, p.jobs), style == "pipe" || style != "fifo" && makeIsOld()); err != nil {
		return nil, fmt.Errorf("--jobserver: %w", err)
	}
	return tokens, nil
}

// environ returns the environment that tasks inherit.
func (w *wiring) environ() []string {
	env := withoutUnits(os.Environ(), w.opts.Queue.Caps)
	if w.feed != nil || w.worker != nil {
		env = without(env, notifySocket) // no task speaks for crew
	}
	if w.tokens == nil || w.tokens.Makeflags() == "" {
		return env
	}
	return append(without(env, "MAKEFLAGS", "MFLAGS"), "MAKEFLAGS="+w.tokens.Makeflags())
}

// withoutUnits returns an environment, which it may change, in which the variables of limits by
// name are empty, as they are for a task that needs nothing of them.
func withoutUnits(env []string, caps []task.Cap) []string {
	for _, c := range caps {
		name := task.CapVariable(c.Name)
		env = append(without(env, name), name+"=")
	}
	return env
}

// without removes variables from an environment, and returns it.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// makeIsOld reports whether the make in PATH is one before 4.4, which stops if the
// jobserver is a FIFO.
func makeIsOld() bool {
	ctx, done := context.WithTimeout(context.Background(), makeTime)
	defer done()
	cmd := exec.CommandContext(ctx, "make", "--version")
	cmd.Env, cmd.WaitDelay = []string{}, makeTime // it may be a script that goes on
	text, _ := cmd.Output()
	var major, minor int
	_, err := fmt.Sscanf(string(text), "GNU Make %d.%d", &major, &minor)
	return err == nil && (major < 4 || major == 4 && minor < 4)
}
