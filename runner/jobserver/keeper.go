package jobserver

import (
	"os"
	"os/signal"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/kernel"
)

// A keeper is a process that holds the tokens for crew, so that they go back however
// crew ends: it takes and returns tokens at crew's request and, when the socket between
// them closes, returns what is left. A token that crew took by itself could be lost
// between taking it and telling another process of it.

// The requests to a keeper, a byte each, and its answers.
const (
	ask      = 'a' // take a token
	withdraw = 'w' // stop trying
	giveBack = 'r' // return a token
	create   = '+' // hold one token more
	destroy  = '-' // hold one token less
	recount  = 'c' // replace the tokens that nobody can return

	got  = 'g' // a token is taken
	none = 'n' // none is, and ask has been withdrawn
)

// keeperName is the argv[0] of a keeper. A keeper gets the descriptors of the socket, of
// the ends of the pipe or FIFO and of the purse, and the directory to remove at the end,
// which may be empty.
const keeperName = "token-keeper"

func init() {
	_, fds, dir, ok := kernel.AsHelper(keeperName, 4)
	if !ok {
		return
	}
	signal.Ignore()
	memory, err := kernel.OpenShared(fds[3])
	if err != nil {
		os.Exit(1)
	}
	k := keeper{purse: purseIn(memory), socket: fds[0], r: fds[1], w: fds[2]}
	k.serve()
	if dir != "" {
		removeDir(dir)
	}
	os.Exit(0)
}

type keeper struct {
	purse
	socket, r, w int
	all          int // how many were created and not destroyed
	asked        bool
	came         chan []byte // what a read(2) brings that may block; nil if none is under way
}

// blocked is how long the keeper waits for a read(2) before it goes on without.
const blocked = 50 * time.Millisecond

// serve does what crew asks for until crew has gone, and then returns all tokens.
func (k *keeper) serve() {
	for {
		fds, wait := []unix.PollFd{{Fd: int32(k.socket), Events: unix.POLLIN}, {Fd: -1}}, -1
		if k.came != nil {
			wait = 0
		} else if k.asked {
			fds[1] = unix.PollFd{Fd: int32(k.r), Events: unix.POLLIN}
		}
		_, _ = unix.Poll(fds, wait)
		if fds[0].Revents != 0 && !k.obey() {
			k.put(k.w, k.count())
			if k.came != nil {
				k.asked = false
				k.take()
			}
			return
		}
		if k.came != nil || k.asked && fds[1].Revents != 0 {
			k.take()
		}
	}
}

// obey carries out requests, and reports whether crew is still there.
func (k *keeper) obey() bool {
	var requests [256]byte
	n, err := unix.Read(k.socket, requests[:])
	if err == unix.EINTR {
		return true
	}
	for _, b := range requests[:max(n, 0)] {
		switch b {
		case ask:
			k.asked = true
		case withdraw:
			if k.asked {
				k.asked = false
				k.answer(none)
			}
		case giveBack:
			k.put(k.w, 1)
		case create:
			k.add('+')
			k.all++
		case destroy:
			k.n.Add(-1)
			k.all--
		case recount:
			k.recount()
		}
	}
	return n > 0
}

// take takes a token if another process has not been faster. If one has, and whoever made
// the pipe lets it block, read(2) does so until another token comes.
func (k *keeper) take() {
	if k.came == nil {
		k.came = make(chan []byte, 1)
		go func(came chan<- []byte) {
			b := make([]byte, 1)
			n, _ := unix.Read(k.r, b)
			came <- b[:max(n, 0)]
		}(k.came)
	}
	select {
	case b := <-k.came:
		k.came = nil
		if len(b) == 0 {
			return
		}
		k.add(b[0])
		if !k.asked {
			k.put(k.w, 1)
			return
		}
		k.asked = false
		k.answer(got)
	case <-time.After(blocked):
	}
}

// recount makes up for tokens whose holders were killed, and for those that such a holder
// has returned after all.
func (k *keeper) recount() {
	there, err := kernel.Unread(k.r)
	if err != nil {
		return
	}
	for lost := k.all - k.count() - there; lost > 0; lost-- {
		k.add('+')
		k.put(k.w, 1)
	}
	for extra := there + k.count() - k.all; extra > 0; extra-- {
		_, _ = unix.Read(k.r, make([]byte, 1))
	}
}

func (k *keeper) answer(b byte) { _, _ = unix.Write(k.socket, []byte{b}) }

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
