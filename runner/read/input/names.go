package input

import (
	"hash/maphash"
	"maps"
)

// Names finds tasks by the names that users give them. The zero Names is empty and
// takes no memory. It must not be copied once it has a name.
//
// It keeps only a 64-bit hash of each name. Among a million names, the probability that two have
// the same hash is 3e-8; the later one would then be mistaken for the earlier one.
type Names struct {
	seed  maphash.Seed
	tasks map[uint64]uint64 // number of each task by the hash of its name
}

// Define gives name to the task with the given number, which must not be 0, unless another task has the
// name. It returns the number of the task that has the name now.
func (n *Names) Define(name string, number uint64) uint64 {
	if n.tasks == nil {
		n.seed, n.tasks = maphash.MakeSeed(), map[uint64]uint64{}
	}
	hash := maphash.String(n.seed, name)
	if first, ok := n.tasks[hash]; ok {
		return first
	}
	n.tasks[hash] = number
	return number
}

// Lookup returns the number of the task called name, or 0 if there is none.
func (n *Names) Lookup(name string) uint64 {
	if n.tasks == nil {
		return 0
	}
	return n.tasks[maphash.String(n.seed, name)]
}

// RemoveAfter removes the names of all tasks with numbers above last. It takes time for each name.
func (n *Names) RemoveAfter(last uint64) {
	maps.DeleteFunc(n.tasks, func(_, number uint64) bool { return number > last })
}
