//go:build amd64 || arm64

package linux

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"crew/runner/linux/raw"
)

// Spawner starts processes as syscall.ForkExec does, with less to do: it takes
// back no signal handlers (60 calls of rt_sigaction(2)) and needs no pipe to hear
// of a failure, since the child shares this process's memory until it has its
// program. Where the kernel has no clone3(2), or a seccomp filter forbids it,
// ForkExec takes over. It is safe for concurrent use.
type Spawner struct {
	pid     uintptr
	noFile  *[2]uint64  // the limit that a child gets back; nil where it has it
	off     atomic.Bool // there is no clone3(2), or not for us
	scripts sync.Pool   // of *script
}

// NewSpawner returns a Spawner. The process no longer hears of its children by
// SIGCHLD.
func NewSpawner() *Spawner {
	s := &Spawner{pid: uintptr(os.Getpid())}
	if first := raw.NoFile; first[0]+1 < first[1] {
		// Package syscall raises the soft limit to one less than the hard one,
		// and ForkExec gives a child the old one unless it has been set since.
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err == nil && now.Cur == first[1]-1 && now.Max == first[1] {
			s.noFile = &first
		}
	}
	// The default of SIGCHLD is to be ignored. The runtime's handler costs a
	// thread's sleep for each child.
	Reset(syscall.SIGCHLD)
	return s
}

// script is what a child needs from before it exists until it has its program:
// the calls that it makes and what these point to.
type script struct {
	calls []raw.Call
	words []*byte // argv and the environment, each with a nil behind it
	text  []byte  // the words, each with a NUL behind it
}

// mostText is how much text is kept for the next child.
const mostText = 64 << 10

// Start starts a program in a process group of its own, which is killed when
// this thread ends. Of attr, Dir, Env and Files count, and in Sys what says that
// for ForkExec. Files must be three. Where it can, Start stores the id in born,
// if that is not nil, before the process exists.
//
// If pin is not nil, the child's affinity is reset to all processors that the
// thread may use without it; where that cannot be had, Start fails with EINVAL.
// Where the directory cannot be entered it fails with a DirError.
func (s *Spawner) Start(path string, argv []string, attr *syscall.ProcAttr, born *int32, pin *Pin) (pid int, err error) {
	if s.off.Load() || !plainFiles(attr.Files) {
		if pin != nil {
			return 0, syscall.EINVAL
		}
		return forkExec(path, argv, attr)
	}
	c, _ := s.scripts.Get().(*script)
	if c == nil {
		c = new(script)
	}
	if !s.write(c, path, argv, attr, pin) {
		return 0, syscall.EINVAL
	}
	pid, errno := raw.Spawn(c.calls, born)
	runtime.KeepAlive(c)
	runtime.KeepAlive(pin)
	failed := c.failed()
	if cap(c.text) <= mostText {
		s.scripts.Put(c)
	}
	switch {
	case errno == uintptr(syscall.ENOSYS), errno == uintptr(syscall.EPERM), errno == uintptr(syscall.EINVAL):
		s.off.Store(true)
		return s.Start(path, argv, attr, born, pin)
	case errno != 0:
		return 0, syscall.Errno(errno)
	case failed != nil:
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
		return 0, failed
	}
	return pid, nil
}

// plainFiles says whether each file can become a standard stream without being
// in the way of another, as it is unless this process began without its own.
func plainFiles(files []uintptr) bool {
	for i, fd := range files {
		if fd < uintptr(len(files)) && fd != uintptr(i) {
			return false
		}
	}
	return true
}

// write writes down what the child is to do. It fails where a word holds a NUL.
func (s *Spawner) write(c *script, path string, argv []string, attr *syscall.ProcAttr, pin *Pin) bool {
	c.begin([]string{path, attr.Dir}, argv, attr.Env)
	file, dir := c.word(path), c.word(attr.Dir)
	c.addWords(argv)
	c.addWords(attr.Env)
	if bytes.Count(c.text, []byte{0}) != 2+len(argv)+len(attr.Env) {
		return false
	}
	c.call(0, syscall.SYS_SETPGID, 0, 0)
	if pin != nil {
		c.call(0, syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(pin.all), uintptr(unsafe.Pointer(&pin.all)))
	}
	if attr.Dir != "" {
		c.call(0, syscall.SYS_CHDIR, pointer(dir))
	}
	c.call(0, syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(attr.Sys.Pdeathsig))
	c.call(s.pid, syscall.SYS_GETPPID) // else this process has died before
	for i, fd := range attr.Files {
		if fd == uintptr(i) {
			c.call(0, syscall.SYS_FCNTL, fd, syscall.F_SETFD, 0)
		} else {
			c.call(uintptr(i), syscall.SYS_DUP3, fd, uintptr(i), 0)
		}
	}
	if s.noFile != nil {
		c.call(0, syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(s.noFile)), 0)
	}
	c.exec(file, len(argv))
	return true
}

// begin empties the script and makes room for words, which must not move once
// they are there.
func (c *script) begin(lists ...[]string) {
	size := 0
	for _, words := range lists {
		for _, w := range words {
			size += len(w) + 1
		}
	}
	if cap(c.text) < size {
		c.text = make([]byte, 0, size+size/4)
	}
	c.calls, c.words, c.text = c.calls[:0], c.words[:0], c.text[:0]
}

func pointer(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// word adds a word to the text.
func (c *script) word(w string) *byte {
	at := len(c.text)
	c.text = append(append(c.text, w...), 0)
	return &c.text[at]
}

// addWords adds a list of words with its nil.
func (c *script) addWords(words []string) {
	for _, w := range words {
		c.words = append(c.words, c.word(w))
	}
	c.words = append(c.words, nil)
}

// call adds a call that returns want.
func (c *script) call(want, number uintptr, args ...uintptr) {
	call := raw.Call{Number: number, Want: want}
	copy(call.Args[:], args)
	c.calls = append(c.calls, call)
}

// exec adds the last call: execve(2) of a file with the words, the first args of
// which are its arguments.
func (c *script) exec(file *byte, args int) {
	c.call(0, syscall.SYS_EXECVE, pointer(file), uintptr(unsafe.Pointer(&c.words[0])), uintptr(unsafe.Pointer(&c.words[args+1])))
}

// failed is what the calls have failed with, or nil.
func (c *script) failed() error {
	for i := range c.calls {
		switch e := syscall.Errno(c.calls[i].Err()); {
		case e == 0:
		case c.calls[i].Number == syscall.SYS_CHDIR:
			return DirError{e}
		default:
			return e
		}
	}
	return nil
}
