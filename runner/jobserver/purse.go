package jobserver

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mostTokens is the capacity of a purse, which is that of a pipe.
const mostTokens = 64 << 10

// purse holds the tokens of a keeper in memory that it shares with crew, which returns
// them if the keeper is killed. A token is lost or doubled only if that happens between a
// system call that moves it and the next instruction.
type purse struct {
	n      *atomic.Int32 // the number of tokens
	tokens []byte        // each may be another byte
}

// purseSize is the size of the memory of a purse.
const purseSize = int64(unsafe.Sizeof(atomic.Int32{})) + mostTokens

// purseIn returns the purse in that memory, which was empty at first.
func purseIn(memory []byte) purse {
	return purse{(*atomic.Int32)(unsafe.Pointer(&memory[0])), memory[unsafe.Sizeof(atomic.Int32{}):]}
}

// count returns how many tokens there are.
func (p purse) count() int { return int(p.n.Load()) }

// add adds a token.
func (p purse) add(token byte) {
	p.tokens[p.count()] = token
	p.n.Add(1)
}

// put writes up to n tokens to the pipe or FIFO w, which must not block.
func (p purse) put(w, n int) {
	for n = min(n, p.count()); n > 0; n-- {
		last := p.count() - 1
		for {
			if _, err := unix.Write(w, p.tokens[last:last+1]); err != unix.EINTR {
				break
			}
		}
		p.n.Add(-1)
	}
}
