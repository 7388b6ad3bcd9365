package proc

import (
	"os"
	"strconv"
	"strings"

	"crew/runner/task"
)

// own are the variables that crew sets for each attempt; inherited ones of
// these names (crew inside crew) are dropped.
var own = [...]string{
	"CREW_SEQ", "CREW_WORKER", "CREW_ATTEMPT", "CREW_KEY", "CREW_PID", "PARALLEL_SEQ", "PARALLEL_JOBSLOT",
}

// environ is the environment that attempts start from. It is not changed after
// newEnviron.
type environ struct {
	base []string
	path string // PATH of base
	pid  string
}

func newEnviron(inherited []string) *environ {
	e := &environ{base: make([]string, 0, len(inherited)), pid: "CREW_PID=" + strconv.Itoa(os.Getpid())}
	for _, kv := range inherited {
		name, value, _ := strings.Cut(kv, "=")
		if isOwn(name) {
			continue
		}
		if name == "PATH" {
			e.path = value
		}
		e.base = append(e.base, kv)
	}
	return e
}

func isOwn(name string) bool {
	for _, n := range own {
		if n == name {
			return true
		}
	}
	return false
}

// of is the environment of an attempt. A task's own additions take the place
// of inherited variables of the same name.
func (e *environ) of(a task.Attempt) []string {
	seq, worker := strconv.FormatUint(a.Task.ID, 10), strconv.Itoa(a.Slot.ID)
	env := make([]string, 0, len(e.base)+len(own)+len(a.Task.Env))
	if len(a.Task.Env) == 0 {
		env = append(env, e.base...)
	} else {
		set := make(map[string]bool, len(a.Task.Env))
		for _, kv := range a.Task.Env {
			name, _, _ := strings.Cut(kv, "=")
			set[name] = true
		}
		for _, kv := range e.base {
			if name, _, _ := strings.Cut(kv, "="); !set[name] {
				env = append(env, kv)
			}
		}
		env = append(env, a.Task.Env...)
	}
	return append(env,
		"CREW_SEQ="+seq, "CREW_WORKER="+worker, "CREW_ATTEMPT="+strconv.Itoa(a.Number), "CREW_KEY="+a.Task.Key,
		e.pid, "PARALLEL_SEQ="+seq, "PARALLEL_JOBSLOT="+worker)
}

// pathOf is the PATH in which an attempt's program is looked for.
func (e *environ) pathOf(t *task.Task) string {
	for _, kv := range t.Env {
		if value, found := strings.CutPrefix(kv, "PATH="); found {
			return value
		}
	}
	return e.path
}
