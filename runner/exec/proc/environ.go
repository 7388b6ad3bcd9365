package proc

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"crew/runner/decide/task"
)

// environ is the environment that attempts start with. It is immutable.
type environ struct {
	base []string
	path string // PATH of base
	pid  string // CREW_PID=N
	pty  bool   // the output of attempts is a terminal
}

func newEnviron(inherited []string, pty bool) *environ {
	e := &environ{pid: "CREW_PID=" + strconv.Itoa(os.Getpid()), pty: pty}
	e.base = e.inherit(inherited)
	e.path, _ = pathIn(e.base)
	return e
}

// inherit returns the variables that attempts inherit from env, without the ones that crew sets itself,
// which crew inside crew inherits. If the output of attempts is a terminal, it sets TERM to xterm unless
// it is set, as docker run -t does, and PAGER to cat, because no user can turn the pages.
func (e *environ) inherit(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return slices.Contains(task.Variables[:], nameOf(kv)) })
	if e.pty {
		env = setVariable(env, "PAGER=cat")
		if !slices.ContainsFunc(env, func(kv string) bool { return nameOf(kv) == "TERM" }) {
			env = append(env, "TERM=xterm")
		}
	}
	return env
}

// nameOf returns the name in NAME=value.
func nameOf(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// pathIn returns the value of PATH in env. ok is false if it is not set.
func pathIn(env []string) (path string, ok bool) {
	for _, kv := range env {
		if path, ok = strings.CutPrefix(kv, "PATH="); ok {
			return path, true
		}
	}
	return "", false
}

// forAttempt returns the environment of an attempt. The task's own variables replace
// inherited ones of the same name. If the task is bare, it inherits none.
func (e *environ) forAttempt(a task.Attempt) []string {
	o := a.Origin()
	seq, worker := strconv.FormatUint(o.Task, 10), strconv.Itoa(o.Slot)
	env := append(make([]string, 0, len(e.base)+len(task.Variables)+len(a.Task.Env)+len(o.Units)), e.base...)
	if a.Task.Bare {
		env = e.inherit(a.Task.Env)
	} else {
		for _, kv := range a.Task.Env {
			env = setVariable(env, kv)
		}
	}
	env = append(env, "CREW_WORKER="+worker, "CREW_HOST="+o.Host, e.pid, "PARALLEL_JOBSLOT="+worker)
	if a.Task.Protocol != task.NoProtocol { // a persistent worker serves many attempts
		return env
	}
	for _, u := range o.Units {
		held := "=" + strings.Join(u.Held, ",")
		env = setVariable(env, task.CapVariable(u.Name)+held)
		if u.Name == task.Devices && showsDevices(env, u.Held) {
			env = setVariable(env, task.DevicesVariable+held)
		}
	}
	return append(env, "CREW_SEQ="+seq, "CREW_ATTEMPT="+strconv.Itoa(o.Number), "CREW_KEY="+a.Task.Key, "PARALLEL_SEQ="+seq)
}

// setVariable returns env with variable, which replaces an earlier value.
func setVariable(env []string, variable string) []string {
	name := nameOf(variable)
	return append(slices.DeleteFunc(env, func(kv string) bool { return nameOf(kv) == name }), variable)
}

// showsDevices reports whether to set the variable that restricts programs to the devices held. If env
// already restricts them, as a batch system or an outer crew does, held must be within these devices.
// Otherwise held must not be empty.
func showsDevices(env, held []string) bool {
	for _, kv := range env {
		if list, set := strings.CutPrefix(kv, task.DevicesVariable+"="); set {
			given := strings.Split(list, ",")
			return !slices.ContainsFunc(held, func(unit string) bool { return !slices.Contains(given, unit) })
		}
	}
	return len(held) > 0
}
