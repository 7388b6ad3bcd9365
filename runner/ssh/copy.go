package ssh

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/kernel"
	"crew/runner/task"
)

// copyScript is for /bin/sh on a host, as one word that any login shell takes unchanged:
// it has no single quote, backslash or exclamation mark, and goes there as one line. It
// adds its standard input to the file $0 in the directory of the hash $3, a part of
// crew-engine that has $1 of $2 bytes. Bytes go where they belong, not where the file
// ends, so that a late one does no harm. What it says last is why it fails, and not what a
// login prints before it. The line that it says now and then fails once the run has ended.
const copyScript = `trap "" PIPE; trap exit HUP INT TERM;
echo "it ended early";
cd "$HOME/.cache/crew/$3" || exit;
trap "mv -f $0 part 2> /dev/null" EXIT;
[ -e "$0" ] && exec 3<> "$0" && [ "$(($(cat <&3 | wc -c)))" = "$1" ] || exit 1;
size=$1 gone=;
while [ "$size" -lt "$2" ]; do
said=$(dd ibs=32k obs=32k count=8 2>&1 >&3) || { echo "${said%%[0-9]*}" >&2; exit 1; };
was=$size size=$(set -- $(ls -ln "$0"); echo $5);
[ "$size" -gt "$was" ] || exit 1;
echo 2> /dev/null || { now=$(date +%s); gone=${gone:-$now}; [ $((now - gone)) -lt 30 ] || exit 1; };
done;
dd of="$0" conv=notrunc,fsync < /dev/null 2> /dev/null || sync;
exec 3>&-;
for sum in sha256sum "shasum -a 256" "sha256 -q" "openssl dgst -r -sha256"; do
command -v ${sum%% *} > /dev/null && break;
done;
sum=$($sum "$0") || exit 1;
case $sum in
"$3"*) ;;
*) rm -f "$0"; echo "the copy was damaged" >&2; exit 1;;
esac;
chmod 700 "$0" && mv -f "$0" ` + programName + ` && rm -f part part.*`

// copying is an ssh that copies crew-engine to a host. A nil one has ended.
type copying struct {
	cmd  *exec.Cmd
	out  *os.File // its stdout and stderr
	over atomic.Bool
	done chan struct{}
}

// copy copies p to the host, to the part of an installScript's mark and from an offset
// on. The ssh goes on by itself if this process ends. Until leave or end, fail is told if
// it fails.
func (h *host) copy(p *program, mark, offset string, fail func(error)) (*copying, error) {
	from, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("its shell does not speak as expected: %w", err)
	}
	in, err := kernel.OpenAgain(p.file)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", programName, err)
	}
	defer in.Close()
	if _, err := in.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read %s: %w", programName, err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd := exec.Command(h.all.c.ssh(), h.sshArgs(fmt.Sprintf("exec /bin/sh -c '%s' part.%s %d %d %s",
		strings.ReplaceAll(copyScript, "\n", " "), mark, from, p.size, p.hash))...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		out.Close()
		return nil, err
	}
	text := fmt.Sprintf("copying %s there, %d MiB", programName, p.size>>20)
	if from > 0 {
		text += fmt.Sprintf(", of which %d are there", from>>20)
	}
	if !h.down {
		h.say(text)
	}
	c := &copying{cmd: cmd, out: out, done: make(chan struct{})}
	go c.watch(fail)
	return c, nil
}

// watch waits for the end of the copy.
func (c *copying) watch(fail func(error)) {
	defer close(c.done)
	defer c.out.Close()
	said := &stderrLines{}
	_, err := io.Copy(said, c.out)
	if err != nil && !c.over.Load() {
		_ = c.cmd.Process.Release() // it may go on
		return
	}
	if err = c.cmd.Wait(); err != nil && !c.over.Load() {
		last, _ := said.last.Load().(string)
		fail(fmt.Errorf("cannot copy %s there (%s): trying again", programName, cmp.Or(last, err.Error())))
	}
}

// ended waits a little for the end of the copy and reports whether it has ended.
func (c *copying) ended() bool {
	if c == nil {
		return true
	}
	select {
	case <-c.done:
		return true
	case <-time.After(endTime):
		return false
	}
}

// leave lets the copy go on alone.
func (c *copying) leave() {
	if c != nil {
		_ = c.out.SetReadDeadline(time.Now())
		<-c.done
	}
}

// end ends the copy, as crew-engine is there.
func (c *copying) end() {
	if c != nil {
		c.over.Store(true)
		_ = c.cmd.Process.Kill()
		_ = c.out.SetReadDeadline(time.Now().Add(endTime)) // another process may hold it
		<-c.done
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
	opened map[string]*program // by platform
}

// get returns the program for what uname -sm printed, or with "" the one that this process
// runs. Those for others lie beside it.
func (ps *programs) get(platform string) (*program, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	own := unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	platform = cmp.Or(platform, own)
	if p := ps.opened[platform]; p != nil {
		return p, nil
	}
	path, err := kernel.OwnPath()
	if platform != own {
		if path, err = otherProgram(platform); err != nil {
			err = fmt.Errorf("crew runs on %s here, and that is %s: %w", own, task.Printable(platform), err)
		}
	}
	if err != nil {
		return nil, err
	}
	p, err := openProgram(path)
	if err != nil {
		return nil, err
	}
	p.platform = platform
	if ps.opened == nil {
		ps.opened = map[string]*program{}
	}
	ps.opened[platform] = p
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

// openProgram opens and hashes a program.
func openProgram(path string) (*program, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", programName, err)
	}
	h, p := sha256.New(), &program{file: f}
	if p.size, err = io.Copy(h, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("read %s: %w", programName, err)
	}
	p.hash = hex.EncodeToString(h.Sum(nil))
	return p, nil
}
