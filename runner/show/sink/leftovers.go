package sink

import (
	"fmt"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// leftovers counts tasks that left processes behind.
type leftovers struct {
	tasks  int64
	lastID uint64
	ids    []uint64 // the first task IDs
	names  []string // the first program names
}

// add counts a task if did is set, unless it was the last one counted, and adds names, which are
// separated by ", ".
func (m *leftovers) add(id uint64, did bool, names string) {
	if !did {
		return
	}
	if id != m.lastID {
		m.lastID = id
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

// text returns a line about the tasks, or "". The %s in format stands for their IDs and programs.
func (m *leftovers) text(format string) string {
	if m.tasks == 0 {
		return ""
	}
	slices.Sort(m.ids)
	which := idList(m.ids, m.tasks)
	if len(m.names) > 0 {
		which = strings.TrimSuffix(which, ")") + ": " + task.Printable(strings.Join(m.names, ", ")) + ")"
	}
	return "crew: " + task.Count(m.tasks, "task") + " " + fmt.Sprintf(format, which) + "\n"
}
