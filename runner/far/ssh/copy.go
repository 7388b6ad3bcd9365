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
	copyStep           = 1 << 20
	copyNoticeInterval = 10 * time.Second // between notices about the progress of a copy
)

// copy sends a host the rest of p. have is the number of bytes that the host has already, as the script
// printed it.
func (h *host) copy(p *program, have string, stdin io.Writer) {
	from, err := strconv.ParseInt(have, 10, 64)
	rest := io.NewSectionReader(p.file, from, p.size-from)
	for noted := (time.Time{}); err == nil; { // after an error the shell reports the reason
		if time.Since(noted) > copyNoticeInterval && !h.failed {
			noted = time.Now()
			h.notice(fmt.Sprintf("copying %s there: %d of %d MiB", programName, from>>20, p.size>>20))
		}
		var n int64
		n, err = io.CopyN(stdin, rest, copyStep)
		from += n
	}
}

// program is the crew-engine binary for one platform.
type program struct {
	file     *os.File
	size     int64
	hash     string // SHA-256 of its content, in hex
	platform string // in the form of uname -sm
}

// programs opens and hashes the crew-engine binaries when hosts need them, once per platform. It is
// safe for concurrent use.
type programs struct {
	mu     sync.Mutex
	opened map[string]*program // by the argument of get
}

// get returns the program for a platform in the form of uname -sm. For "" it returns the program of
// this process. Programs for other platforms are in the same directory.
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

// openProgram opens and hashes the program for a platform. See programs.get.
func openProgram(platform string) (*program, error) {
	var u unix.Utsname
	_ = unix.Uname(&u) // never fails
	own := unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	path, err := kernel.OwnPath()
	if platform != "" {
		if path, err = programPath(platform); err != nil {
			err = fmt.Errorf("crew runs on %s here, but the host is %s: %w", own, task.Printable(platform), err)
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h, p := sha256.New(), &program{file: f, platform: cmp.Or(platform, own)}
	if p.size, err = io.Copy(h, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("read %s: %w", programName, err)
	}
	p.hash = hex.EncodeToString(h.Sum(nil))
	return p, nil
}

// The systems and processors that crew is built for, keyed by the output of uname -s and uname -m.
var (
	systems  = map[string]string{"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd"}
	machines = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "riscv64": "riscv64"}
)

// programPath returns the path of the program for a platform in the form of uname -sm. It builds the
// path from Go's names only, so that a host cannot make crew send another file.
func programPath(platform string) (string, error) {
	const install = "install crew there and start crew worker"
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
