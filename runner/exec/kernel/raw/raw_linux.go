//go:build (amd64 || arm64) && !crew_portable

// Package raw contains assembly, and code that must run before any other package is initialised. It is
// for package kernel alone, on amd64 and arm64.
//
// It must import nothing but unsafe: a package without imports whose path sorts before "syscall" is
// initialised before it (The Go Programming Language Specification, "Package initialization"). So it
// still sees the soft limit on open files that tasks must get back, before package syscall raises it.
package raw

import "unsafe"

// NoFile holds the soft and the hard limit on open files that this process started with.
var NoFile = noFile()

// Pipe is the descriptor to which the note handler writes the number of a signal, as one byte.
var Pipe int32

// Call is a system call.
type Call struct {
	Number uintptr
	Args   [4]uintptr
	Want   uintptr // in a child: the child exits if the result is another
	got    uintptr
}

// Err returns the error number of the call, or 0. If the call returned something other than Want that is
// no error number, Err returns ETIME.
func (c *Call) Err() uintptr {
	const etime = 62
	if e := errno(c.got); e != 0 || c.got == c.Want || c.got == 0 { // it may not have been made
		return e
	}
	return etime
}

// Action is struct kernel_sigaction of rt_sigaction(2).
type Action struct {
	Handler  uintptr // 0 for the default action, 1 to ignore the signal
	Flags    uint64
	Restorer uintptr
	Mask     uint64
}

const (
	// HandlerFlags are SA_RESTORER, SA_ONSTACK, which the runtime needs, and
	// SA_RESTART.
	HandlerFlags = 0x4000000 | 0x8000000 | 0x10000000
	maskSize     = 8

	cloneVM           = 0x100
	cloneVfork        = 0x4000
	cloneParentSetTID = 0x100000
	cloneChildSetTID  = 0x1000000
	cloneClearSighand = 0x100000000 // Linux 5.5
	sigchld           = 17
	rlimitNoFile      = 7
)

// Until crew handles its signals, SIGQUIT kills it without a dump of all goroutines'
// stacks. The Go runtime itself ignores SIGUSR1 and SIGUSR2.
func init() {
	const sigquit = 3
	Sigaction(sigquit, &Action{})
}

// Sigaction calls rt_sigaction(2). It returns an error number, or 0.
//
//go:nosplit
func Sigaction(sig int, to *Action) uintptr {
	c := Call{Number: sysRtSigaction, Args: [4]uintptr{
		uintptr(sig), uintptr(unsafe.Pointer(to)), 0, maskSize,
	}}
	do(&c)
	return c.Err()
}

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags      uint64
	_          uint64 // pidfd
	childTID   uint64
	parentTID  uint64
	exitSignal uint64
	_          [6]uint64 // stack, stack_size, tls, set_tid, set_tid_size, cgroup
}

// Spawn starts a child that makes the calls one after another. The child exits with status 127 as soon
// as a call returns anything other than its Want. The last call is an execve, which returns only if it
// fails. Until the exec the child shares this process's memory; it runs no Go code and inherits no
// signal handlers. If born is not nil, the kernel stores the child's ID there before the child runs,
// even if this process is killed meanwhile. The child itself stores its ID in self, for its calls.
//
// Spawn returns the child's ID, or the error number of clone3(2). If async is false, it returns when
// the child has exec'ed or ended; if a call has failed, the caller has to reap the child. If async is
// true, Spawn does not wait, and calls and self must stay in place until the exec.
//
// The caller must keep the data that Args point to alive and off its stack.
//
//go:nosplit
func Spawn(calls []Call, born, self *int32, async bool) (pid int, err uintptr) {
	args := cloneArgs{
		flags: cloneVM | cloneVfork | cloneClearSighand | cloneChildSetTID, exitSignal: sigchld,
		childTID: uint64(uintptr(unsafe.Pointer(self))),
	}
	if async {
		args.flags &^= cloneVfork
	}
	if born != nil {
		args.flags |= cloneParentSetTID
		args.parentTID = uint64(uintptr(unsafe.Pointer(born)))
	}
	r := clone(&args, unsafe.Sizeof(args), &calls[0])
	if err = errno(r); err != 0 {
		return 0, err
	}
	return int(r), 0
}

// noFile returns the soft and the hard limit on open files.
func noFile() (limit [2]uint64) {
	c := Call{Number: sysPrlimit64, Args: [4]uintptr{0, rlimitNoFile, 0, uintptr(unsafe.Pointer(&limit))}}
	do(&c)
	return limit
}

// errno returns the error number in the result of a system call, or 0.
//
//go:nosplit
func errno(r uintptr) uintptr {
	if int(r) < 0 && int(r) > -4096 {
		return -r
	}
	return 0
}

// clone calls clone3(2). The child does not return from it, but makes the calls.
//
//go:noescape
func clone(args *cloneArgs, size uintptr, calls *Call) (pid uintptr)

// do makes a system call in this process.
//
//go:noescape
func do(c *Call)

// Handlers returns the addresses of code that the kernel calls: a signal handler that writes the
// signal's number to Pipe, a handler that does nothing, and the code to which both return.
func Handlers() (note, nothing, restore uintptr)
