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

// makePurse makes an empty purse and its descriptor.
func makePurse() (p purse, fd int, err error) {
	fd, err = unix.MemfdCreate("crew-tokens", unix.MFD_CLOEXEC)
	if err != nil {
		return p, 0, err
	}
	if err = unix.Ftruncate(fd, mostTokens+int64(unsafe.Sizeof(*p.n))); err == nil {
		p, err = openPurse(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return p, fd, err
}

// openPurse maps the purse of a descriptor.
func openPurse(fd int) (p purse, err error) {
	head := unsafe.Sizeof(*p.n)
	memory, err := unix.MmapPtr(fd, 0, nil, head+mostTokens, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return p, err
	}
	return purse{(*atomic.Int32)(memory), unsafe.Slice((*byte)(unsafe.Add(memory, head)), mostTokens)}, nil
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
