package jobserver

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// A Keeper returns tokens to another program's jobserver. It runs in the guardian, a process that
// outlives crew and shares memory with it. No token is lost or doubled if crew is killed: the system
// call that takes a token stores it in the shared memory, and only the Keeper writes tokens back, when
// crew asks it to. A token can be lost or doubled only if the guardian itself is killed between writing
// it back and the next instruction.
type Keeper struct {
	*counts        // nil if there are no tokens of another program
	tokens  []byte // token number n is at n modulo maxTokens; 0 if there is none
	w       int    // write end of the pipe or FIFO
	dir     string // holds the FIFO of crew's own jobserver; "" if there is none
}

// counts holds how many tokens crew has taken, and how many were returned.
type counts struct{ taken, returned atomic.Uint32 }

// maxTokens is the most tokens that can exist at once: the capacity of a pipe.
const maxTokens = 64 << 10

// sharedSize is the size of the memory that crew shares with the guardian.
const sharedSize = int64(unsafe.Sizeof(counts{})) + maxTokens

// share sets the shared memory. New memory must be zero.
func (k *Keeper) share(memory []byte) {
	k.counts, k.tokens = (*counts)(unsafe.Pointer(&memory[0])), memory[unsafe.Sizeof(counts{}):]
}

// NewKeeper returns the Keeper of the guardian, given the results of Tokens.KeeperArgs in crew.
func NewKeeper(fds []int, dir string) *Keeper {
	k := &Keeper{w: fds[1], dir: dir}
	if memory, err := kernel.OpenShared(fds[0]); err == nil { // fails if there are no tokens of another program
		k.share(memory)
	}
	return k
}

// at returns the place of token number n.
func (k *Keeper) at(n uint32) []byte { return k.tokens[n%maxTokens:][:1] }

// take takes a token from a pipe or FIFO. It returns false if there is none.
func (k *Keeper) take(r int) bool {
	n := k.taken.Load()
	if n-k.returned.Load() == maxTokens || !read(r, k.at(n)) {
		return false
	}
	k.taken.Add(1)
	return true
}

// ReturnOne returns a token, as crew requests, and reports whether there was one.
func (k *Keeper) ReturnOne() bool {
	n := k.returned.Load()
	if int32(k.taken.Load()-n) <= 0 && k.at(n)[0] == 0 { // crew may have been killed after it took a token and before it counted it
		return false
	}
	write(k.w, k.at(n))
	k.at(n)[0] = 0
	k.returned.Add(1)
	return true
}

// ReturnAll returns all tokens, and removes the FIFO of crew's own jobserver.
func (k *Keeper) ReturnAll() {
	for k.counts != nil && k.ReturnOne() {
	}
	if k.dir != "" {
		_ = os.Remove(filepath.Join(k.dir, fifoName))
		_ = os.Remove(k.dir)
	}
}

// read reads from a pipe, and reports whether it got anything.
func read(r int, to []byte) (ok bool) {
	_ = kernel.IgnoreEINTR(func() error {
		n, err := unix.Read(r, to)
		ok = n > 0
		return err
	})
	return ok
}

// write writes to a pipe, which must have room.
func write(w int, tokens []byte) {
	if len(tokens) > 0 {
		_ = kernel.IgnoreEINTR(func() error { _, err := unix.Write(w, tokens); return err })
	}
}
