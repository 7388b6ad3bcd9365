package ssh

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const (
	copyStep  = 1 << 20
	copyNoted = 10 * time.Second // between two notices of how far a copy is
)

// copy sends a host what follows of p after some bytes, as the shell says them.
func (h *host) copy(p *program, there string, stdin io.Writer) {
	from, err := strconv.ParseInt(there, 10, 64)
	rest := io.NewSectionReader(p.file, from, p.size-from)
	for noted := (time.Time{}); err == nil; { // or else the shell says what is wrong
		if time.Since(noted) > copyNoted && !h.failed {
			noted = time.Now()
			h.say(fmt.Sprintf("copying %s there: %d of %d MiB", programName, from>>20, p.size>>20))
		}
		var n int64
		n, err = io.CopyN(stdin, rest, copyStep)
		from += n
	}
}

// program is crew-engine for one kind of machine.
type program struct {
	file     *os.File
	size     int64
	hash     string // of its content
	platform string // as uname -sm prints it
}

// programs are crew-engine for all kinds of machines that hosts are. They are opened and
// hashed when a host needs them. It is safe for concurrent use.
type programs struct {
	mu     sync.Mutex
	opened map[string]*program // by what get was asked for
}

// get returns the program for what uname -sm printed, or with "" the one that this process
// runs. Those for others lie beside it.
func (ps *programs) get(platform string) (p *program, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p = ps.opened[platform]; p == nil {
		if p, err = openProgram(platform); err == nil {
			if ps.opened == nil {
				ps.opened = map[string]*program{}
			}
			ps.opened[platform] = p
		}
	}
	return p, err
}

// openProgram opens and hashes a program. See programs.get.
func openProgram(platform string) (*program, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	own := unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	path, err := kernel.OwnPath()
	if platform != "" {
		if path, err = otherProgram(platform); err != nil {
			err = fmt.Errorf("crew runs on %s here, and that is %s: %w", own, task.Printable(platform), err)
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", programName, err)
	}
	h, p := sha256.New(), &program{file: f, platform: cmp.Or(platform, own)}
	if p.size, err = io.Copy(h, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("read %s: %w", programName, err)
	}
	p.hash = hex.EncodeToString(h.Sum(nil))
	return p, nil
}

// The systems and processors that crew is built for, by what uname -s and -m call them.
var (
	systems  = map[string]string{"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd"}
	machines = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "riscv64": "riscv64"}
)

// otherProgram returns the path of the program for what uname -sm printed. The names are
// crew's own, so that no host makes it send another file.
func otherProgram(platform string) (string, error) {
	const install = "install crew there and have it run crew worker"
	name, machine, _ := strings.Cut(platform, " ")
	system, arch := systems[name], machines[machine]
	if system == "" || arch == "" {
		return "", errors.New(install)
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(own); err == nil { // on darwin it may be a link
		own = real
	}
	path := filepath.Join(filepath.Dir(own), programName+"-"+system+"-"+arch)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("put the %s for it here as %s, or %s", programName, path, install)
	}
	return path, nil
}
