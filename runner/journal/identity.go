package journal

import (
	"crypto/sha256"
	"encoding/binary"

	"crew/runner/task"
)

// identity is what makes a task the same one in another run: 128 bits of
// SHA-256 over what it does and, for the second of equal tasks and those after
// it, its occurrence.
type identity = [16]byte

// hasher computes identities. It is used by one goroutine.
type hasher struct{ buf []byte }

// of is the identity of the first task that does what t does: its command, with
// a {%} that stands for any worker, and the directory, environment and input
// that are its own. Each part stands behind its length, so no two tasks look
// alike by where one part ends and the next begins.
func (h *hasher) of(t *task.Task) identity {
	h.buf = h.buf[:0]
	h.flags(t)
	if t.Err != nil {
		// It has no command; its records are what it would have done.
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
	return h.sum()
}

// occurrence is the identity of the nth of equal tasks, counted from 1, where
// first is that of the first.
func (h *hasher) occurrence(first identity, n uint32) identity {
	if n == 1 {
		return first
	}
	h.buf = append(h.buf[:0], first[:]...)
	h.number(int(n))
	return h.sum()
}

func (h *hasher) sum() identity {
	s := sha256.Sum256(h.buf)
	return identity(s[:len(identity{})])
}

func (h *hasher) flags(t *task.Task) {
	for _, set := range [...]bool{t.Err != nil, t.Shell, t.Varies(), t.Stdin != nil} {
		b := byte(0)
		if set {
			b = 1
		}
		h.buf = append(h.buf, b)
	}
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
