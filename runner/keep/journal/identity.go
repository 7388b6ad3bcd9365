package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"path/filepath"
	"time"

	"crew/runner/decide/task"
)

// identity identifies a task across runs. It is 128 bits of a SHA-256 over the task's work, or over
// the files that it makes. The second and later of equal tasks also have their occurrence hashed.
type identity = [16]byte

// hasher computes identities. It is not safe for concurrent use.
type hasher struct{ buf []byte }

// identify returns the identity of t, as the first of equal tasks. Tasks that make the same files
// are equal; for these, command is a hash of their work for the stamp. An identity that t already
// has, from its source, is kept.
func (h *hasher) identify(t *task.Task) (id identity, command uint64) {
	if t.Identity != (identity{}) {
		return t.Identity, 0
	}
	id = h.hashWork(t)
	command = binary.LittleEndian.Uint64(id[:8])
	if t.Makes == nil || t.Err != nil { // such a task may have no targets
		return id, command
	}
	h.buf = append(h.buf[:0], targetsPrefix)
	h.number(len(t.Makes.Targets))
	for _, target := range t.Makes.Targets {
		h.text(filepath.Clean(t.PathIn("", target.Path)))
	}
	return h.sum(), command
}

// targetsPrefix is the first byte of the hash input for targets. No other hash input begins with
// it.
const targetsPrefix = 2

// hashWork returns a hash of the work of t: its command, with {%} standing for any worker, and its
// own directory, environment and input. Every part has its length in front, so that shifting bytes
// between parts changes the hash.
func (h *hasher) hashWork(t *task.Task) identity {
	h.buf = h.buf[:0]
	for _, set := range [...]bool{t.Err != nil, t.Shell, t.Varies(), t.Stdin != nil} {
		b := byte(0)
		if set {
			b = 1
		}
		h.buf = append(h.buf, b)
	}
	if t.Err != nil { // without a command, its records identify it
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
		n, _ := t.Block.WriteTo(block) // an unreadable file fails the attempt
		h.number(int(n))
		h.buf = block.Sum(h.buf)
	}
	if t.Makes != nil && t.Makes.Stdout {
		h.buf = append(h.buf, 1)
	}
	return h.sum()
}

// occurrence returns the identity of the nth of equal tasks, where n is at least 2 and first is the
// identity of the first one.
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

// Identity identifies a task in the directories of all runs. It is equal for tasks that do the same
// work or make the same files.
type Identity = identity

// IdentityOf returns the identity of a task that is not from a queue.
func IdentityOf(t *task.Task) Identity {
	id, _ := new(hasher).identify(t)
	return id
}

// Times returns the durations of the tasks in a directory's journal, which a run may be writing. It
// returns nil for a queue, whose tasks are identified only by their numbers. If there is no
// journal, the error is fs.ErrNotExist.
func Times(dir string) (times map[Identity]time.Duration, err error) {
	err = withContents(dir, func(l *contents) error {
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
