//go:build amd64 || arm64

package vfork

import "unsafe"

// NoFile is the soft and the hard limit on open files with which this process
// began. Package syscall raises the soft one when it is initialised.
var NoFile = noFile()

// Call is a system call that the child makes.
type Call struct {
	Number uintptr
	Args   [4]uintptr
	Want   uintptr // what it has to return; else the child ends
	got    uintptr
}

// Err is the error number that the call returned to the child, or 0.
func (c *Call) Err() uintptr { return errno(c.got) }

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags      uint64
	_          [2]uint64 // pidfd, child_tid
	parentTID  uint64
	exitSignal uint64
	_          [6]uint64 // stack, stack_size, tls, set_tid, set_tid_size, cgroup
}

const (
	cloneVM           = 0x100
	cloneVfork        = 0x4000
	cloneParentSetTID = 0x100000
	cloneClearSighand = 0x100000000 // Linux 5.5
	sigchld           = 17
	rlimitNoFile      = 7
)

var besideArgs = cloneArgs{flags: cloneVM | cloneClearSighand, exitSignal: sigchld}

// Run starts a child that makes the calls one after another until one does not
// return what it should, and then ends with status 127. The last is an execve
// that never returns what it should. Run comes back when the child has another
// program or has ended. It returns the child's id, or the error number for
// which there is none; whether the last call failed is for the caller to ask,
// and to reap the child then. Where born is not nil the child's id is there
// before the child is, even when this process is killed meanwhile.
//
// What Args point to has to be kept alive by the caller, and must not be on its
// stack.
//
//go:nosplit
func Run(calls []Call, born *int32) (pid int, err uintptr) {
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

// Start is Run for a child that is not waited for: it makes its calls beside
// this process and shares its memory until it has another program or has ended,
// also when this process is killed meanwhile. Until then the calls and what they
// point to must stay as they are.
//
//go:nosplit
func Start(calls []Call) (pid int, err uintptr) {
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
