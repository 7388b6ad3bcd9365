package sink

import (
	"fmt"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// remains tells of tasks that have left processes behind.
type remains struct {
	tasks int64
	last  uint64
	ids   []uint64 // the first of them
	names []string // of the first programs
}

// add adds a task that did, unless it was the last one, and the names of programs, with commas between them.
func (m *remains) add(id uint64, did bool, names string) {
	if !did {
		return
	}
	if id != m.last {
		m.last = id
		m.tasks++
		m.ids = append(m.ids, id)[:min(m.tasks, digestTasks)]
	}
	for name := range strings.SplitSeq(names, ", ") {
		if n := len(m.names); name == "" || slices.Contains(m.names, name) || n > digestTasks {
			continue
		} else if n == digestTasks {
			name = "…"
		}
		m.names = append(m.names, name)
	}
}

// text returns a line about the tasks, if there are any. They come where format has %s.
func (m *remains) text(format string) string {
	if m.tasks == 0 {
		return ""
	}
	slices.Sort(m.ids)
	which := ids(m.ids, m.tasks)
	if len(m.names) > 0 {
		which = strings.TrimSuffix(which, ")") + ": " + task.Printable(strings.Join(m.names, ", ")) + ")"
	}
	return "crew: " + task.Count(m.tasks, "task") + " " + fmt.Sprintf(format, which) + "\n"
}
