package kernel

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A helper is a process of this very program that does one job for it and may outlive
// it. Its argv[0] is not the program's name, so that killing every crew by name spares
// the helpers. The other arguments are the ID of this process, descriptors, and a word;
// they are no environment variables, which anybody may set and every process inherits.
//
// A helper runs in a process group of its own, in the root directory, with null as its
// three standard streams; its only other descriptors are its arguments, of which 0 is
// none, if the kernel has close_range(2).

// program is the command line of a helper.
type program struct {
	argv []string
	null int
	keep []int // descriptors, ascending and above 2
}

var helperEnv = []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0"}

func newProgram(name string, null int, fds []int, word string) program {
	argv := []string{name, strconv.Itoa(os.Getpid())}
	for _, fd := range fds {
		argv = append(argv, strconv.Itoa(fd))
	}
	keep := slices.DeleteFunc(slices.Sorted(slices.Values(fds)), func(fd int) bool { return fd == 0 })
	return program{append(argv, word), null, keep}
}

// StartNow starts the helper without a delay.
func (p *program) StartNow() (pid int, err error) {
	null, closed := uintptr(p.null), ^uintptr(0)
	files := []uintptr{null, null, null}
	for _, fd := range p.keep {
		for len(files) < fd {
			files = append(files, closed)
		}
		files = append(files, uintptr(fd))
	}
	path, err := OwnPath()
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, p.argv, &syscall.ProcAttr{
		Dir: "/", Env: helperEnv, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// AsHelper returns what NewHelper was called with, with n descriptors, if this process is
// such a helper. Call it in an init function: then no other package has to be initialised
// first, and every binary that starts helpers, such as a test, is its own.
func AsHelper(name string, n int) (parent int, fds []int, word string, ok bool) {
	if len(os.Args) != n+3 || os.Args[0] != name {
		return 0, nil, "", false
	}
	var numbers []int
	for _, arg := range os.Args[1 : n+2] {
		number, err := strconv.Atoi(arg)
		if err != nil {
			return 0, nil, "", false
		}
		numbers = append(numbers, number)
	}
	return numbers[0], numbers[1:], os.Args[n+2], true
}

// OpenShared returns the memory of a descriptor.
func OpenShared(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	return unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
