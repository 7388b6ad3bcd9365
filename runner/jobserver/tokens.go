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

	"crew/runner/kernel"
)

// Tokens are the tokens that this process holds of a jobserver's, a make's or its own.
// Its methods are safe for concurrent use; only Close waits. It is called once.
type Tokens struct {
	own       bool
	makeflags string

	mu      sync.Mutex
	r, w    int            // the ends of the pipe or FIFO, which do not block
	dir     string         // holds the FIFO; "" for none
	held    int            // tokens that the user of Tokens knows of and has not returned
	purse   purse          // shared with the keeper
	fd      int            // of the socket to the keeper
	socket  *os.File       // the same; nil if there is none
	unsent  []byte         // requests that the socket had no room for
	sending bool           // a goroutine sends them
	keeper  *kernel.Helper // must stay reachable until it execs
	pid     int
	gone    bool // the keeper has ended
	watch   func(got bool, err error)
	closed  bool
	done    chan struct{} // closed when the answers have ended
}

// ErrClosed is why Join cannot use a pipe that this process has not inherited.
var ErrClosed = errors.New("its pipe is closed")

// Join returns the tokens of a jobserver that this process is a client of. It holds
// none at first, and has the place that its parent has taken a token for.
func Join(a Auth) (*Tokens, error) {
	if a.fifo == "" && a.r < 0 {
		return nil, ErrClosed
	}
	t := &Tokens{done: make(chan struct{})}
	if err := t.open(a); err != nil {
		return nil, err
	}
	return t, nil
}

// open opens the ends of the pipe or FIFO.
func (t *Tokens) open(a Auth) (err error) {
	name := cmp.Or(a.fifo, fmt.Sprintf("pipe %d,%d", a.r, a.w))
	open := func(end, mode int) (fd int) {
		if err != nil {
			return 0
		}
		if a.fifo == "" {
			fd, err = kernel.Reopen(end, mode)
		} else {
			fd, err = unix.Open(name, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			err = fmt.Errorf("open %s: %w", name, err)
			return 0
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			_, err = unix.Close(fd), fmt.Errorf("%s is no FIFO", name)
		}
		return fd
	}
	t.r = open(a.r, unix.O_RDONLY)
	if t.w = open(a.w, unix.O_WRONLY); err != nil && t.r > 0 {
		_ = unix.Close(t.r)
	}
	return err
}

// Share makes a jobserver for this process and those that it starts. It has no tokens
// until Create. inherited is the value of MAKEFLAGS that they would have otherwise, and
// n the number of places. With pipe it has the older form, whose descriptors all
// processes inherit that this one starts.
func Share(inherited string, n int, pipe bool) (t *Tokens, err error) {
	t = &Tokens{own: true, done: make(chan struct{})}
	if pipe {
		var ends [2]int
		if err = unix.Pipe(ends[:]); err != nil {
			return nil, err
		}
		t.makeflags = makeflags(inherited, fmt.Sprintf("%d,%d", ends[0], ends[1]), n)
		err = t.open(Auth{r: ends[0], w: ends[1]})
	} else {
		var fifo string
		if fifo, err = t.makeFIFO(); err == nil {
			t.makeflags = makeflags(inherited, "fifo:"+fifo, n)
			err = t.open(Auth{fifo: fifo})
		}
	}
	if err == nil {
		err = t.start() // it removes the FIFO at the end
	}
	if err != nil {
		if t.dir != "" {
			removeDir(t.dir)
		}
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
		t.dir, err = os.MkdirTemp(tmp, "crew-jobserver-")
	}
	if err == nil {
		fifo = filepath.Join(t.dir, fifoName)
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

// removeDir removes the FIFO and its directory.
func removeDir(dir string) {
	_ = os.Remove(filepath.Join(dir, fifoName))
	_ = os.Remove(dir)
}

// Own reports whether the tokens are those of Share: their number is up to Create and
// Destroy, and every process needs one.
func (t *Tokens) Own() bool { return t.own }

// Makeflags returns the value of MAKEFLAGS for the processes that share the tokens; ""
// if they inherit it.
func (t *Tokens) Makeflags() string { return t.makeflags }

// Watch sets the function that gets the answer to each Ask: whether there is a token.
// It is called by one goroutine, before the first Ask. After an error none will come.
func (t *Tokens) Watch(answer func(got bool, err error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = answer
	if t.socket != nil {
		go t.listen()
	}
}

// Ask asks for a token.
func (t *Tokens) Ask() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if t.socket == nil {
		if err := t.start(); err != nil {
			go t.watch(false, err)
			return
		}
		go t.listen()
	}
	t.send(ask, 1)
}

// Withdraw has Ask answered at once.
func (t *Tokens) Withdraw() { t.request(withdraw, 1, 0) }

// Return returns n tokens that this process holds.
func (t *Tokens) Return(n int) { t.request(giveBack, n, -n) }

// Create makes n tokens, which this process holds.
func (t *Tokens) Create(n int) { t.request(create, n, n) }

// Destroy destroys n tokens that this process holds.
func (t *Tokens) Destroy(n int) { t.request(destroy, n, -n) }

// Recount replaces tokens that are lost because their holders were killed. Nobody but
// this process may hold any. An Ask after it is answered when it is done.
func (t *Tokens) Recount() { t.request(recount, 1, 0) }

// request sends n requests, by which this process comes to hold more tokens.
func (t *Tokens) request(b byte, n, more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.socket == nil || t.closed {
		return
	}
	t.held += more
	if t.gone {
		t.tidy()
		return
	}
	t.send(b, n)
}

// send sends n requests without waiting: the keeper may be stopped. If it has gone, listen
// learns of it, too. The caller must hold mu.
func (t *Tokens) send(b byte, n int) {
	t.unsent = append(t.unsent, bytes.Repeat([]byte{b}, n)...)
	if t.sending {
		return
	}
	sent, _ := unix.Write(t.fd, t.unsent)
	if t.unsent = t.unsent[max(sent, 0):]; len(t.unsent) > 0 {
		t.sending = true
		go t.sendLater()
	}
}

// sendLater sends what is unsent.
func (t *Tokens) sendLater() {
	for {
		t.mu.Lock()
		requests := t.unsent
		t.unsent, t.sending = nil, len(requests) > 0
		t.mu.Unlock()
		if len(requests) == 0 {
			return
		}
		_, _ = t.socket.Write(requests)
	}
}

// tidy returns the tokens of a keeper that has gone, but for those that this process holds.
// The caller must hold mu.
func (t *Tokens) tidy() { t.purse.put(t.w, t.purse.count()-t.held) }

// start starts the keeper.
func (t *Tokens) start() error {
	fds, err := kernel.SocketPair()
	if err != nil {
		return err
	}
	opened := fds[1:]
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		opened = append(opened, null)
		err = t.exec(fds[1], null)
	}
	for _, fd := range opened {
		_ = unix.Close(fd)
	}
	if err != nil {
		_ = unix.Close(fds[0])
		return fmt.Errorf("start the keeper of the tokens: %w", err)
	}
	// With the runtime's poller, since a thread that is blocked in read(2) makes brief tasks
	// take a third more time.
	_ = unix.SetNonblock(fds[0], true)
	t.fd, t.socket = fds[0], os.NewFile(uintptr(fds[0]), "keeper")
	return nil
}

// exec makes the purse and starts the keeper with its end of the socket.
func (t *Tokens) exec(socket, null int) error {
	memory, fd, err := kernel.NewShared("crew-tokens", purseSize)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	t.purse = purseIn(memory)
	t.keeper = kernel.NewHelper(keeperName, null, []int{socket, t.r, t.w, fd}, t.dir, 0)
	t.pid, err = t.keeper.Start()
	return err
}

// listen hands on the keeper's answers.
func (t *Tokens) listen() {
	defer close(t.done)
	var answers [64]byte
	for {
		n, err := t.socket.Read(answers[:])
		for _, b := range answers[:n] {
			if b == got {
				t.mu.Lock()
				t.held++
				t.mu.Unlock()
			}
			t.watch(b == got, nil)
		}
		if err != nil {
			t.mu.Lock()
			t.gone = true
			t.tidy()
			t.mu.Unlock()
			t.watch(false, errors.New("the keeper of the tokens has ended"))
			return
		}
	}
}

// Close returns all tokens that this process holds. A jobserver of its own ends.
func (t *Tokens) Close() error {
	t.mu.Lock()
	socket, watched := t.socket, t.watch != nil
	t.closed = true
	t.mu.Unlock()
	var err error
	if socket != nil {
		_ = unix.Shutdown(t.fd, unix.SHUT_WR)
		t.reap()
		if watched {
			<-t.done
		}
		if t.dir != "" {
			removeDir(t.dir) // if the keeper was killed
		}
		t.held = 0
		t.tidy()
		err = socket.Close()
	}
	return errors.Join(err, unix.Close(t.r), unix.Close(t.w))
}

// closing is how long Close waits for the keeper.
const closing = time.Second

// reap waits for the end of the keeper, which may stand still, and kills it if it does not end.
func (t *Tokens) reap() {
	_ = unix.Kill(t.pid, unix.SIGCONT)
	killed := make(chan struct{})
	late := time.AfterFunc(closing, func() {
		_ = unix.Kill(t.pid, unix.SIGKILL)
		close(killed)
	})
	kernel.Exited(t.pid, 0)
	if !late.Stop() {
		<-killed // not later, when its ID may be another's
	}
	kernel.Wait(t.pid, nil, nil)
}
