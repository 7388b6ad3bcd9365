package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"path/filepath"
	"time"

	"crew/runner/decide/task"
)

// identity identifies a task across runs: 128 bits of SHA-256 over what the task
// does, or which files it makes, and, from the second of equal tasks on, over its
// occurrence.
type identity = [16]byte

// hasher computes identities. It is not safe for concurrent use.
type hasher struct{ buf []byte }

// of returns the identity of the first task that is the same as t. One that makes files is
// the same if it makes the same ones: what it does for that, command tells for their stamp. A source may
// have set the identity.
func (h *hasher) of(t *task.Task) (id identity, command uint64) {
	if t.Identity != (identity{}) {
		return t.Identity, 0
	}
	id = h.does(t)
	command = binary.LittleEndian.Uint64(id[:8])
	if t.Makes == nil || t.Err != nil { // it may have no targets
		return id, command
	}
	h.buf = append(h.buf[:0], ofTargets)
	h.number(len(t.Makes.Targets))
	for _, target := range t.Makes.Targets {
		h.text(filepath.Clean(t.PathIn("", target.Path)))
	}
	return h.sum(), command
}

// ofTargets is the first byte of what is hashed for the files of a task. Nothing else that is
// hashed begins with it.
const ofTargets = 2

// does returns a hash of what t does. It covers the command, in which {%} stands for any
// worker, and the task's own directory, environment and input. Every part is preceded by
// its length, so tasks cannot become equal by shifting bytes from one part to the next.
func (h *hasher) does(t *task.Task) identity {
	h.buf = h.buf[:0]
	for _, set := range [...]bool{t.Err != nil, t.Shell, t.Varies(), t.Stdin != nil} {
		b := byte(0)
		if set {
			b = 1
		}
		h.buf = append(h.buf, b)
	}
	if t.Err != nil { // it has no command, so its records identify it
		h.text(t.Object)
		h.number(len(t.Records))
		for _, r := range t.Records {
			h.list(r)
		}
	}
	h.list(t.Argv)
	h.text(t.Dir)
	h.list(t.Env)
	h.number(len(t.Stdin))
	h.buf = append(h.buf, t.Stdin...)
	if t.Block != nil {
		block := sha256.New()
		n, _ := t.Block.WriteTo(block) // a file that cannot be read fails the attempt
		h.number(int(n))
		h.buf = block.Sum(h.buf)
	}
	if t.Makes != nil && t.Makes.Stdout {
		h.buf = append(h.buf, 1)
	}
	return h.sum()
}

// occurrence returns the identity of the nth of equal tasks, from the second on. first
// is the identity of the first.
func (h *hasher) occurrence(first identity, n uint32) identity {
	h.buf = append(h.buf[:0], first[:]...)
	h.number(int(n))
	return h.sum()
}

func (h *hasher) sum() identity {
	s := sha256.Sum256(h.buf)
	return identity(s[:len(identity{})])
}

func (h *hasher) list(words []string) {
	h.number(len(words))
	for _, w := range words {
		h.text(w)
	}
}

func (h *hasher) text(s string) {
	h.number(len(s))
	h.buf = append(h.buf, s...)
}

func (h *hasher) number(n int) { h.buf = binary.AppendUvarint(h.buf, uint64(n)) }

// Identity is what a task is recognized by in the directories of all runs: it is equal for
// tasks that do the same, or that make the same files.
type Identity = identity

// IdentityOf returns the identity of a task that is not one of a queue.
func IdentityOf(t *task.Task) Identity {
	id, _ := new(hasher).of(t)
	return id
}

// Times returns how long the tasks took that the journal of a directory knows. A run may be
// writing it meanwhile. The journal of a queue tells tasks apart by their numbers alone: of
// it, Times returns nil. Without a journal the error is fs.ErrNotExist.
func Times(dir string) (times map[Identity]time.Duration, err error) {
	err = look(dir, func(l *loaded) error {
		if l.head.Queue > 0 {
			return nil
		}
		times = make(map[Identity]time.Duration, l.table.n)
		for e := range l.table.all {
			if e.duration > 0 {
				times[e.id] = time.Duration(e.duration)
			}
		}
		return l.table.err
	})
	return times, err
}
