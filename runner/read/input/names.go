package input

import (
	"hash/maphash"
	"maps"
)

// Names finds tasks by the names that their users give them. The zero Names is empty and
// takes no memory. It must not be copied once it has a name.
//
// It does not keep the names, but a 64-bit hash of each. Two of a million names have the same
// one with a probability of 3e-8; the later of the two would be taken for the earlier one.
type Names struct {
	seed  maphash.Seed
	tasks map[uint64]uint64 // the number of each task by the hash of its name
}

// Define gives a name to a task unless another one has it, and returns the number of the task
// that has it now. The number must not be 0.
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

// Lookup returns the number of the task that has a name, or 0 if none has.
func (n *Names) Lookup(name string) uint64 {
	if n.tasks == nil {
		return 0
	}
	return n.tasks[maphash.String(n.seed, name)]
}

// Undo forgets the names of tasks with numbers above last. It looks at all names.
func (n *Names) Undo(last uint64) {
	maps.DeleteFunc(n.tasks, func(_, number uint64) bool { return number > last })
}
