package jobserver

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// A Keeper gives tokens of another program's jobserver back in the guardian, a process that
// outlives crew and shares memory with it. None is lost or doubled if crew is killed: the
// system call that takes a token stores it in that memory, and only the Keeper, which crew asks
// to, writes one back. That can happen only if the guardian is killed between the write and
// the next instruction.
type Keeper struct {
	*counts        // nil without tokens of another program's
	tokens  []byte // the token number n is at n modulo mostTokens; where none is, there is a 0
	w       int    // where the tokens go
	dir     string // holds the FIFO of a jobserver of crew's own; "" for none
}

// counts are how many tokens were taken, by crew, and given back.
type counts struct{ taken, given atomic.Uint32 }

// mostTokens is how many tokens there can be at once, which is the capacity of a pipe.
const mostTokens = 64 << 10

// sharedSize is the size of the memory that crew shares with the guardian.
const sharedSize = int64(unsafe.Sizeof(counts{})) + mostTokens

// share sets the memory, which was empty at first.
func (k *Keeper) share(memory []byte) {
	k.counts, k.tokens = (*counts)(unsafe.Pointer(&memory[0])), memory[unsafe.Sizeof(counts{}):]
}

// Keep returns a Keeper with what Tokens.Kept returned in crew.
func Keep(fds []int, dir string) *Keeper {
	k := &Keeper{w: fds[1], dir: dir}
	if memory, err := kernel.OpenShared(fds[0]); err == nil { // there is none without tokens of another program's
		k.share(memory)
	}
	return k
}

// at returns the place of the token number n.
func (k *Keeper) at(n uint32) []byte { return k.tokens[n%mostTokens:][:1] }

// take takes a token from a pipe or FIFO if one is there.
func (k *Keeper) take(r int) bool {
	n := k.taken.Load()
	if n-k.given.Load() == mostTokens || !read(r, k.at(n)) {
		return false
	}
	k.taken.Add(1)
	return true
}

// Give gives a token back, as crew asks for, and reports whether there was one.
func (k *Keeper) Give() bool {
	n := k.given.Load()
	if int32(k.taken.Load()-n) <= 0 && k.at(n)[0] == 0 { // crew may have been killed before it counted one
		return false
	}
	write(k.w, k.at(n))
	k.at(n)[0] = 0
	k.given.Add(1)
	return true
}

// End gives all tokens back, and removes the FIFO of a jobserver of crew's own.
func (k *Keeper) End() {
	for k.counts != nil && k.Give() {
	}
	if k.dir != "" {
		_ = os.Remove(filepath.Join(k.dir, fifoName))
		_ = os.Remove(k.dir)
	}
}

// read reads from a pipe, and reports whether anything came.
func read(r int, to []byte) (came bool) {
	_ = kernel.IgnoreEINTR(func() error {
		n, err := unix.Read(r, to)
		came = n > 0
		return err
	})
	return came
}

// write writes to a pipe, which must have room.
func write(w int, tokens []byte) {
	if len(tokens) > 0 {
		_ = kernel.IgnoreEINTR(func() error { _, err := unix.Write(w, tokens); return err })
	}
}
