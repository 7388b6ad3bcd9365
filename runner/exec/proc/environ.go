package proc

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"crew/runner/decide/task"
)

// environ is the environment that attempts start from. It does not change.
type environ struct {
	base []string
	path string // PATH of base
	pid  string
	pty  bool // attempts write to terminals
}

func newEnviron(inherited []string, pty bool) *environ {
	e := &environ{pid: "CREW_PID=" + strconv.Itoa(os.Getpid()), pty: pty}
	e.base = e.from(inherited)
	e.path, _ = pathIn(e.base)
	return e
}

// from returns what attempts inherit of an environment. If they write to terminals, TERM
// is xterm unless it is set, as under docker run -t, and PAGER is cat, since nobody is
// there to turn pages.
func (e *environ) from(env []string) []string {
	env = others(env)
	if e.pty {
		env = with(env, "PAGER=cat")
		if !slices.ContainsFunc(env, func(kv string) bool { return nameOf(kv) == "TERM" }) {
			env = append(env, "TERM=xterm")
		}
	}
	return env
}

// others returns an environment without crew's own variables (crew inside crew).
func others(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return slices.Contains(task.Own[:], nameOf(kv)) })
}

// nameOf returns the name in NAME=value.
func nameOf(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// pathIn returns the PATH of an environment.
func pathIn(env []string) (path string, ok bool) {
	for _, kv := range env {
		if path, ok = strings.CutPrefix(kv, "PATH="); ok {
			return path, true
		}
	}
	return "", false
}

// of returns the environment of an attempt. The task's own variables replace
// inherited ones of the same name or, if the task is bare, all of them.
func (e *environ) of(a task.Attempt) []string {
	o := a.Origin()
	seq, worker := strconv.FormatUint(o.Task, 10), strconv.Itoa(o.Slot)
	env := append(make([]string, 0, len(e.base)+len(task.Own)+len(a.Task.Env)+len(o.Units)), e.base...)
	if a.Task.Bare {
		env = e.from(a.Task.Env)
	} else {
		for _, kv := range a.Task.Env {
			env = with(env, kv)
		}
	}
	env = append(env, "CREW_WORKER="+worker, "CREW_HOST="+o.Host, e.pid, "PARALLEL_JOBSLOT="+worker)
	if a.Task.Protocol != task.NoProtocol { // the process serves many attempts
		return env
	}
	for _, u := range o.Units {
		held := "=" + strings.Join(u.Held, ",")
		env = with(env, task.CapVariable(u.Name)+held)
		if u.Name == task.Devices && mayShow(env, u.Held) {
			env = with(env, task.DevicesVariable+held)
		}
	}
	return append(env, "CREW_SEQ="+seq, "CREW_ATTEMPT="+strconv.Itoa(o.Number), "CREW_KEY="+a.Task.Key, "PARALLEL_SEQ="+seq)
}

// with returns an environment with a variable, instead of an earlier one of that name.
func with(env []string, variable string) []string {
	name := nameOf(variable)
	return append(slices.DeleteFunc(env, func(kv string) bool { return nameOf(kv) == name }), variable)
}

// mayShow reports whether programs are to see just the devices that a task holds, if any. Where
// the environment gives others, as a batch system does, or crew itself around this one, these stay.
func mayShow(env, held []string) bool {
	for _, kv := range env {
		if list, set := strings.CutPrefix(kv, task.DevicesVariable+"="); set {
			given := strings.Split(list, ",")
			return !slices.ContainsFunc(held, func(unit string) bool { return !slices.Contains(given, unit) })
		}
	}
	return len(held) > 0
}
