package kernel

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A helper is a process that runs this same program, does one job for the process that
// started it, and may outlive it. Its argv[0] is not the program's name, so that killing
// every crew by name spares the helpers. The other arguments are the ID of the starting
// process, descriptors, and a word. Arguments are used because anyone can set environment
// variables, and every process inherits them.
//
// A helper runs in its own process group, in the root directory, with null as its three
// standard streams. If the kernel has close_range(2), its only other descriptors are those
// among its arguments; 0 there stands for no descriptor.

// noFD in ProcAttr.Files leaves a descriptor closed.
const noFD = ^uintptr(0)

var helperEnv = []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0"}

// helper returns the command line of a helper and the attributes to start it with.
func helper(name string, null int, fds []int, word string) (argv []string, attr *syscall.ProcAttr) {
	argv = []string{name, strconv.Itoa(os.Getpid())}
	files := slices.Repeat([]uintptr{noFD}, slices.Max(append(fds, 2))+1)
	for _, fd := range fds {
		argv = append(argv, strconv.Itoa(fd))
		files[fd] = uintptr(fd)
	}
	files[0], files[1], files[2] = uintptr(null), uintptr(null), uintptr(null)
	return append(argv, word), &syscall.ProcAttr{Dir: "/", Env: helperEnv, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}
}

// startNow starts a helper without a delay.
func startNow(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	path, err := OwnPath()
	if err != nil {
		return 0, err
	}
	started := make(chan struct{})
	defer close(started)
	go Unstick(started) // no other process may be left to do it
	return forkExec(path, argv, attr)
}

// AsHelper reports whether this process is a helper that StartHelper started under name with n
// descriptors, and returns the ID of the process that started it, the descriptors and the word. Call it
// in an init function: then no other package has to be initialised first, and any binary that starts
// helpers, such as a test, can run as its own helper.
func AsHelper(name string, n int) (parent int, fds []int, word string, ok bool) {
	if len(os.Args) != n+3 || os.Args[0] != name {
		return 0, nil, "", false
	}
	var numbers []int
	for _, arg := range os.Args[1 : n+2] {
		number, _ := strconv.Atoi(arg)
		numbers = append(numbers, number)
	}
	return numbers[0], numbers[1:], os.Args[n+2], true
}

// NewShared creates memory to share with helpers, backed by a file without a name, and returns it with
// the file's descriptor. It uses the first of the sizes that the limit on file sizes allows.
func NewShared(name string, sizes ...int64) (memory []byte, fd int, err error) {
	for _, size := range sizes {
		if fd, err = newShared(name, size); err == nil {
			break
		}
	}
	if err == nil {
		memory, err = OpenShared(fd)
	}
	if err != nil {
		Close(&fd)
	}
	return memory, fd, err
}

// OpenShared maps the memory that NewShared created, given its descriptor.
func OpenShared(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	return unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
