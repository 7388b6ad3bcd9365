// Package jobserver shares places for processes by the protocol of GNU make's
// jobserver: a pipe or FIFO holds a token, which is a byte, for each place that is
// free. Whoever takes one may run one process more until it writes the byte back.
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

// Tokens are the tokens that this process holds of a jobserver's, a make's or its own.
// Its methods are safe for concurrent use; only Settle waits. The zero value has none.
type Tokens struct {
	keeper    Keeper // its other form is in the guardian
	makeflags string
	r         *os.File     // with the runtime's poller: a thread that is blocked in read(2) makes brief tasks take a third more time
	in        int          // the same
	memory    int          // what keeper shares
	asks      int          // a pipe to the guardian: each byte asks for one token to be given back
	guard     func() error // starts the guardian
	watch     func(got bool, err error)

	mu     sync.Mutex
	all    int     // tokens that were created and not destroyed
	held   int     // tokens that this process has
	came   [1]byte // a token of its own that take has read and not counted yet
	asked  bool    // an answer is due
	taking bool    // take runs
	closed bool
}

// ErrClosed is why Join cannot use a pipe that this process has not inherited.
var ErrClosed = errors.New("its pipe is closed")

// Join returns the tokens of a jobserver that this process is a client of. It holds
// none at first, and has the place that its parent has taken a token for.
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

// open opens the ends of the pipe or FIFO.
func (t *Tokens) open(a Auth) (err error) {
	if t.in, err = a.open(a.r, unix.O_RDONLY); err != nil {
		return err
	}
	t.r = os.NewFile(uintptr(t.in), "jobserver")
	t.keeper.w, err = a.open(a.w, unix.O_WRONLY)
	return err
}

// open opens the end of a pipe once more, or a FIFO.
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
		_, err = unix.Close(fd), fmt.Errorf("%s is no FIFO", name)
	}
	return fd, err
}

// Share makes a jobserver for this process and those that it starts. It has no tokens
// until Create. inherited is the value of MAKEFLAGS that they would have otherwise, and
// n the number of places. With pipe it has the older form, whose descriptors all
// processes inherit that this one starts.
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
		t.keeper.End()
		return nil, err
	}
	return t, nil
}

// makeFIFO makes a FIFO in a directory of its own.
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

// Own reports whether the tokens are those of Share: their number is up to Create and
// Destroy, and every process needs one.
func (t *Tokens) Own() bool { return t.keeper.counts == nil }

// Makeflags returns the value of MAKEFLAGS for the processes that share the tokens; ""
// if they inherit it.
func (t *Tokens) Makeflags() string { return t.makeflags }

// Guard sets the function that starts the guardian, which runs Keep. It returns a pipe: for each
// byte that comes out of that, the guardian has to call Give. Guard comes before the first Ask.
func (t *Tokens) Guard(start func() (asks int, err error)) {
	t.guard = sync.OnceValue(func() (err error) {
		t.asks, err = start()
		return err
	})
	if t.Own() {
		_ = t.guard() // it removes the FIFO at the end
	}
}

// Kept returns what the guardian needs for Keep.
func (t *Tokens) Kept() (fds []int, dir string) { return []int{t.memory, t.keeper.w}, t.keeper.dir }

// Watch sets the function that gets the answer to each Ask, one after another: whether there
// is a token. It comes before the first Ask. After an error none will come.
func (t *Tokens) Watch(answer func(got bool, err error)) { t.watch = answer }

// Ask asks for a token.
func (t *Tokens) Ask() {
	if !t.Own() {
		if err := t.guard(); err != nil { // a token would be lost if this process was killed
			go t.watch(false, err)
			return
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = !t.closed
	if t.asked && !t.taking {
		t.taking = true
		go t.take()
	}
}

// Withdraw has Ask answered at once.
func (t *Tokens) Withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked {
		t.asked = false
		go t.watch(false, nil)
	}
}

// take waits for tokens as long as one is wanted. If another process is faster, and whoever made
// the pipe lets it block, read(2) may return with one that is wanted no longer.
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
		t.held, t.came[0] = t.held+1, 0
		if !answer {
			t.give(1)
		}
	}
	t.asked = t.asked && !answer
	if t.taking = t.asked; t.taking { // again, meanwhile
		go t.take()
	}
	t.mu.Unlock()
	if answer {
		t.watch(got, err)
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
		return read(t.in, t.came[:])
	}
	return t.keeper.take(t.in)
}

// give gives n tokens back. The caller must hold mu.
func (t *Tokens) give(n int) {
	t.held -= n
	to := t.asks
	if t.Own() {
		to = t.keeper.w
	}
	write(to, bytes.Repeat([]byte{'+'}, n))
	if t.closed {
		t.keeper.End() // nobody else does
	}
}

// Return returns n tokens that this process holds.
func (t *Tokens) Return(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.give(n)
	}
}

// Create makes n tokens, which this process holds. The jobserver must be its own.
func (t *Tokens) Create(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all, t.held = t.all+n, t.held+n
}

// Destroy destroys n tokens that this process holds, of its own jobserver.
func (t *Tokens) Destroy(n int) { t.Create(-n) }

// Recount replaces tokens of its own jobserver that are lost because their holders were killed,
// and destroys those that such a holder has returned after all. Nobody but this process may
// hold any.
func (t *Tokens) Recount() {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := 0
	for n := -1; n != t.uncounted(); {
		n = t.uncounted()
		there, _ = kernel.Unread(t.in)
	}
	lost := t.all - t.held - t.uncounted() - there
	write(t.keeper.w, bytes.Repeat([]byte{'+'}, max(lost, 0)))
	for ; lost < 0; lost++ {
		read(t.in, make([]byte, 1))
	}
}

// uncounted returns how many tokens take has read and not counted yet, for which it does not
// need mu.
//
//go:norace
func (t *Tokens) uncounted() int { return int(t.came[0] & 1) } // of '+'

// closing is how long Settle waits for the guardian.
const closing = time.Second

// Settle gives all tokens back, and ends a jobserver of its own. It waits for the guardian, if
// there is one, which is not needed then.
func (t *Tokens) Settle(guarded bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = false
	if t.Own() {
		t.closed = true
		t.keeper.End()
		return
	}
	t.give(t.held)
	left := func() bool { return t.keeper.given.Load() != t.keeper.taken.Load() }
	for pause := 50 * time.Microsecond; guarded && left() && pause < closing; pause *= 2 {
		time.Sleep(pause)
	}
	t.closed = true
}

// Close ends what Join or Share began. There is no guardian any more.
func (t *Tokens) Close() error {
	t.Settle(false)
	return t.r.Close()
}
