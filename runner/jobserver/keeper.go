package jobserver

import (
	"os"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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

// keeperVariable holds, in a keeper's environment, the descriptors of the socket and of
// the ends of the pipe or FIFO, and the directory to remove at the end, which may be
// empty.
const keeperVariable = "CREW_TOKEN_KEEPER"

// init turns a process that was started as a keeper into one, as that of package proc
// does for a guardian.
func init() {
	value, is := os.LookupEnv(keeperVariable)
	if !is {
		return
	}
	fields := strings.SplitN(value, " ", 4)
	if len(fields) == 4 {
		var fds [3]int
		var err error
		for i := range fds {
			if fds[i], err = strconv.Atoi(fields[i]); err != nil {
				os.Exit(1)
			}
		}
		signal.Ignore()
		k := keeper{socket: fds[0], r: fds[1], w: fds[2]}
		k.serve()
		if fields[3] != "" {
			_ = os.RemoveAll(fields[3])
		}
	}
	os.Exit(0)
}

type keeper struct {
	socket, r, w int
	held         []byte // tokens, which may differ
	all          int    // how many were created and not destroyed
	asked        bool
}

// serve does what crew asks for until crew has gone, and then returns all tokens.
func (k *keeper) serve() {
	for {
		fds := []unix.PollFd{{Fd: int32(k.socket), Events: unix.POLLIN}, {Fd: -1}}
		if k.asked {
			fds[1] = unix.PollFd{Fd: int32(k.r), Events: unix.POLLIN}
		}
		_, _ = unix.Poll(fds, -1)
		if fds[0].Revents != 0 && !k.obey() {
			k.put(len(k.held))
			return
		}
		if k.asked && fds[1].Revents != 0 {
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
			k.put(1)
		case create:
			k.held = append(k.held, '+')
			k.all++
		case destroy:
			k.held = k.held[:len(k.held)-1]
			k.all--
		case recount:
			k.recount()
		}
	}
	return n > 0
}

// take takes a token if another process has not been faster.
func (k *keeper) take() {
	var b [1]byte
	if n, _ := unix.Read(k.r, b[:]); n == 1 {
		k.held, k.asked = append(k.held, b[0]), false
		k.answer(got)
	}
}

// recount makes up for tokens whose holders were killed, and for those that such a holder
// has returned after all.
func (k *keeper) recount() {
	there, err := unix.IoctlGetInt(k.r, unix.TIOCINQ)
	if err != nil {
		return
	}
	for lost := k.all - len(k.held) - there; lost > 0; lost-- {
		k.held = append(k.held, '+')
		k.put(1)
	}
	for extra := there + len(k.held) - k.all; extra > 0; extra-- {
		_, _ = unix.Read(k.r, make([]byte, 1))
	}
}

// put returns n tokens.
func (k *keeper) put(n int) {
	for ; n > 0; n-- {
		last := len(k.held) - 1
		for {
			if _, err := unix.Write(k.w, k.held[last:]); err != unix.EINTR {
				break
			}
		}
		k.held = k.held[:last]
	}
}

func (k *keeper) answer(b byte) { _, _ = unix.Write(k.socket, []byte{b}) }
