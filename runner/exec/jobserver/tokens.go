// Package jobserver shares places for processes by the protocol of GNU make's jobserver: a pipe or FIFO
// holds a token, which is a byte, for each free place. A program that takes a token may run one more
// process until it writes the byte back.
package jobserver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// Tokens holds tokens of a jobserver, which is either make's or this process's own. Its methods are
// safe for concurrent use; only Settle blocks. The zero Tokens has none.
type Tokens struct {
	keeper    Keeper // its counterpart is in the guardian
	makeflags string
	r         *os.File     // uses the runtime's poller: a thread blocked in read(2) makes brief tasks take a third longer
	in        int          // descriptor of r
	memory    int          // descriptor of keeper's shared memory
	requests  int          // write end of a pipe to the guardian: each byte requests the return of one token
	guard     func() error // starts the guardian
	watch     func(err error)

	mu     sync.Mutex
	total  int     // tokens that were created and not destroyed
	held   int     // tokens that this process has
	fresh  [1]byte // a token of our own jobserver that take has read but not counted yet
	asked  bool    // an answer to Ask is due
	closed bool
}

// ErrClosed is returned by Join for a pipe that this process did not inherit.
var ErrClosed = errors.New("its pipe is closed")

// Join returns the tokens of a jobserver whose client this process is. It holds none at first. It has
// one place already, for which its parent has taken a token.
func Join(a Auth) (*Tokens, error) {
	if a.fifo == "" && a.r < 0 {
		return nil, ErrClosed
	}
	t := &Tokens{}
	if err := t.open(a); err != nil {
		return nil, err
	}
	memory, fd, err := kernel.NewShared("crew-tokens", sharedSize)
	if err != nil {
		return nil, err
	}
	t.keeper.share(memory)
	t.memory = fd
	return t, nil
}

// open opens both ends of the pipe or FIFO.
func (t *Tokens) open(a Auth) (err error) {
	if t.in, err = a.open(a.r, unix.O_RDONLY); err != nil {
		return err
	}
	t.r = os.NewFile(uintptr(t.in), "jobserver")
	t.keeper.w, err = a.open(a.w, unix.O_WRONLY)
	return err
}

// open opens a FIFO, or opens the end of a pipe a second time.
func (a Auth) open(end, mode int) (fd int, err error) {
	if a.fifo == "" {
		fd, err = kernel.Reopen(end, mode)
	} else {
		fd, err = unix.Open(a.fifo, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	name := cmp.Or(a.fifo, fmt.Sprintf("pipe %d,%d", a.r, a.w))
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", name, err)
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		_, err = unix.Close(fd), fmt.Errorf("%s is not a FIFO", name)
	}
	return fd, err
}

// Share creates a jobserver for this process and its children. It has no tokens until Create. inherited
// is the value of MAKEFLAGS that the children would have otherwise, and n the number of places. If pipe
// is true, the jobserver has the older form: a pipe whose descriptors all children inherit.
func Share(inherited string, n int, pipe bool) (t *Tokens, err error) {
	t = &Tokens{}
	var a Auth
	var auth string
	if pipe {
		var ends [2]int
		err = unix.Pipe(ends[:])
		a.r, a.w, auth = ends[0], ends[1], fmt.Sprintf("%d,%d", ends[0], ends[1])
	} else {
		a.fifo, err = t.makeFIFO()
		auth = "fifo:" + a.fifo
	}
	if err == nil {
		t.makeflags = makeflags(inherited, auth, n)
		err = t.open(a)
	}
	if err != nil {
		t.keeper.ReturnAll()
		return nil, err
	}
	return t, nil
}

// makeFIFO creates a FIFO in a new directory.
func (t *Tokens) makeFIFO() (fifo string, err error) {
	const hint = "set TMPDIR to another directory"
	tmp, err := filepath.Abs(os.TempDir())
	if err == nil && strings.ContainsAny(tmp, " \t\n\v\f\r$\\") {
		return "", fmt.Errorf("MAKEFLAGS cannot hold the path %q: %s", tmp, hint)
	}
	if err == nil {
		t.keeper.dir, err = os.MkdirTemp(tmp, "crew-jobserver-")
	}
	if err == nil {
		fifo = filepath.Join(t.keeper.dir, fifoName)
		if err = unix.Mkfifo(fifo, 0o600); err != nil {
			err = &os.PathError{Op: "mkfifo", Path: fifo, Err: err}
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, hint)
	}
	return fifo, err
}

const fifoName = "tokens"

// Own reports whether the jobserver was created by Share. Then Create decides the number of
// tokens, and every process needs one.
func (t *Tokens) Own() bool { return t.keeper.counts == nil }

// Makeflags returns the value of MAKEFLAGS for the processes that share the tokens. It returns "" if
// they can inherit it.
func (t *Tokens) Makeflags() string { return t.makeflags }

// Guard sets the function that starts the guardian, which runs a Keeper. start returns a pipe: for each
// byte written to it, the guardian calls Keeper.ReturnOne. Guard must be called before the first Ask.
func (t *Tokens) Guard(start func() (requests int, err error)) {
	t.guard = sync.OnceValue(func() (err error) {
		t.requests, err = start()
		return err
	})
	if t.Own() {
		_ = t.guard() // the guardian removes the FIFO at the end
	}
}

// KeeperArgs returns the arguments of NewKeeper for the guardian.
func (t *Tokens) KeeperArgs() (fds []int, dir string) {
	return []int{t.memory, t.keeper.w}, t.keeper.dir
}

// Watch sets the function that receives the answer to each Ask. It must be called before the first Ask.
// If err is nil, this process got a token; otherwise it will never get one.
func (t *Tokens) Watch(answer func(err error)) { t.watch = answer }

// Ask requests a token. The answer to an earlier Ask must have come.
func (t *Tokens) Ask() {
	if !t.Own() {
		if err := t.guard(); err != nil { // a token would be lost if this process were killed
			go t.watch(err)
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked = !t.closed; t.asked {
		go t.take()
	}
}

// take waits for a token, and takes none once Settle was called. If another process is faster and the
// pipe was made to block, read(2) may return a token only then.
func (t *Tokens) take() {
	got := false
	conn, err := t.r.SyscallConn()
	if err == nil {
		err = conn.Read(func(uintptr) (done bool) {
			got = t.wanted() && t.read()
			return got || !t.wanted()
		})
	}
	t.mu.Lock()
	answer := t.asked && (got || err != nil)
	if got {
		t.held, t.fresh[0] = t.held+1, 0
		if !answer {
			t.returnLocked(1)
		}
	}
	t.asked = false
	t.mu.Unlock()
	if answer {
		t.watch(err)
	}
}

// wanted reports whether an answer is due.
func (t *Tokens) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

// read takes a token if there is one.
func (t *Tokens) read() bool {
	if t.Own() {
		return read(t.in, t.fresh[:])
	}
	return t.keeper.take(t.in)
}

// returnLocked returns n tokens. The caller must hold mu.
func (t *Tokens) returnLocked(n int) {
	t.held -= n
	to := t.requests
	if t.Own() {
		to = t.keeper.w
	}
	write(to, bytes.Repeat([]byte{'+'}, n))
	if t.closed {
		t.keeper.ReturnAll() // otherwise no one would return them
	}
}

// Return returns n tokens that this process holds.
func (t *Tokens) Return(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.returnLocked(n)
	}
}

// Create adds n tokens to this process's own jobserver, which this process holds. If n is negative, it
// removes such tokens.
func (t *Tokens) Create(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total, t.held = t.total+n, t.held+n
}

// Recount replaces the tokens of this process's own jobserver that were lost because their holders were
// killed. It removes tokens that such a holder has returned after all. No other process may hold tokens
// during the call.
func (t *Tokens) Recount() {
	t.mu.Lock()
	defer t.mu.Unlock()
	available := 0
	for n := -1; n != t.uncounted(); {
		n = t.uncounted()
		available, _ = kernel.Unread(t.in)
	}
	lost := t.total - t.held - t.uncounted() - available
	write(t.keeper.w, bytes.Repeat([]byte{'+'}, max(lost, 0)))
	for ; lost < 0; lost++ {
		read(t.in, make([]byte, 1))
	}
}

// uncounted returns how many tokens take has read but not counted yet. take reads without holding mu,
// so this is a deliberate data race.
//
//go:norace
func (t *Tokens) uncounted() int { return int(t.fresh[0] & 1) } // a token is '+', which is odd

// settleTimeout is how long Settle waits for the guardian.
const settleTimeout = time.Second

// Settle returns all tokens, and closes this process's own jobserver. If guarded is true, it waits for
// a limited time until the guardian has returned the tokens; the guardian is not needed afterwards.
func (t *Tokens) Settle(guarded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = false
	if t.Own() {
		t.closed = true
		t.keeper.ReturnAll()
		return
	}
	t.returnLocked(t.held)
	if guarded {
		kernel.Poll(settleTimeout, func() bool { return t.keeper.returned.Load() == t.keeper.taken.Load() })
	}
	t.closed = true
}

// Close undoes Join or Share. The guardian must have ended.
func (t *Tokens) Close() error {
	t.Settle(false)
	return t.r.Close()
}
