//go:build amd64 || arm64

// Package raw is what has to happen in assembly, or before any other package is
// initialised. Package linux is its only user; on other processors than amd64
// and arm64 it is not used.
//
// It imports nothing but unsafe, and must not: a package without imports whose
// path comes before "syscall" is initialised before that (The Go Programming
// Language Specification, "Package initialization"). Only until then can it see
// the soft limit on open files, which package syscall raises and tasks are to
// get back.
package raw

import "unsafe"

// NoFile is the soft and the hard limit on open files with which this process
// began.
var NoFile = noFile()

// Pipe is the descriptor to which the handler that notes a signal writes its
// number as one byte.
var Pipe int32

// Call is a system call.
type Call struct {
	Number uintptr
	Args   [4]uintptr
	Want   uintptr // what it has to return, in a child; else the child ends
	got    uintptr
}

// Err is the error number that the call returned, or 0.
func (c *Call) Err() uintptr { return errno(c.got) }

// Action is struct kernel_sigaction of rt_sigaction(2).
type Action struct {
	Handler  uintptr // 0 is the default, 1 is to ignore
	Flags    uint64
	Restorer uintptr
	Mask     uint64
}

const (
	// HandlerFlags are SA_RESTORER, SA_ONSTACK as the runtime wants it, and
	// SA_RESTART.
	HandlerFlags = 0x4000000 | 0x8000000 | 0x10000000
	maskSize     = 8

	cloneVM           = 0x100
	cloneVfork        = 0x4000
	cloneParentSetTID = 0x100000
	cloneClearSighand = 0x100000000 // Linux 5.5
	sigchld           = 17
	rlimitNoFile      = 7
)

// In a process that has just begun the Go runtime would print the stacks of all
// goroutines at SIGQUIT. Until crew takes its signals it ends by SIGQUIT as
// other programs do, and nothing comes of the others.
func init() {
	const sigquit, sigusr1, sigusr2 = 3, 10, 12
	_, nothing, restore := Handlers()
	Sigaction(sigquit, &Action{}, nil)
	for _, sig := range [...]int{sigusr1, sigusr2} {
		Sigaction(sig, &Action{nothing, HandlerFlags, restore, ^uint64(0)}, nil)
	}
}

// Sigaction is rt_sigaction(2). It returns an error number, or 0.
//
//go:nosplit
func Sigaction(sig int, to, old *Action) uintptr {
	c := Call{Number: sysRtSigaction, Args: [4]uintptr{
		uintptr(sig), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), maskSize,
	}}
	do(&c)
	return c.Err()
}

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags      uint64
	_          [2]uint64 // pidfd, child_tid
	parentTID  uint64
	exitSignal uint64
	_          [6]uint64 // stack, stack_size, tls, set_tid, set_tid_size, cgroup
}

var besideArgs = cloneArgs{flags: cloneVM | cloneClearSighand, exitSignal: sigchld}

// Spawn starts a child that makes the calls one after another until one does not
// return what it should, and then ends with status 127. The last is an execve
// that never returns what it should. The child shares this process's memory, runs
// no Go code and inherits no signal handler. Spawn returns when the child has
// another program or has ended: the child's id, or the error number for which
// there is none. Whether a call failed is for the caller to ask, and to reap the
// child then. If born is not nil the child's id is there before the child is,
// even when this process is killed meanwhile.
//
// What Args point to has to be kept alive by the caller, and must not be on its
// stack.
//
//go:nosplit
func Spawn(calls []Call, born *int32) (pid int, err uintptr) {
	args := cloneArgs{flags: cloneVM | cloneVfork | cloneClearSighand, exitSignal: sigchld}
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

// SpawnBeside is Spawn for a child that is not waited for: it makes its calls
// beside this process and shares its memory until it has another program or has
// ended, also when this process is killed meanwhile. Until then the calls and
// what they point to must stay as they are.
//
//go:nosplit
func SpawnBeside(calls []Call) (pid int, err uintptr) {
	r := clone(&besideArgs, unsafe.Sizeof(besideArgs), &calls[0])
	if err = errno(r); err != 0 {
		return 0, err
	}
	return int(r), 0
}

// noFile asks for the limit on open files.
func noFile() (limit [2]uint64) {
	c := Call{Number: sysPrlimit64, Args: [4]uintptr{0, rlimitNoFile, 0, uintptr(unsafe.Pointer(&limit))}}
	do(&c)
	return limit
}

// errno is the error number in what a system call returned, or 0.
//
//go:nosplit
func errno(r uintptr) uintptr {
	if int(r) < 0 && int(r) > -4096 {
		return -r
	}
	return 0
}

// clone is clone3(2). The child does not return from it: it makes the calls.
//
//go:noescape
func clone(args *cloneArgs, size uintptr, calls *Call) (pid uintptr)

// do makes a call in this process.
//
//go:noescape
func do(c *Call)

// Handlers are the addresses of the signal handlers, which are code that the
// kernel calls: one that writes the signal's number to Pipe, one that does
// nothing, and what both return to.
func Handlers() (note, nothing, restore uintptr)
