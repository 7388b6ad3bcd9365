package engine

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

const engineName = "crew-engine"

// installScript is for /bin/sh on a host: it takes crew-engine from its standard
// input if that is missing, and becomes it. The shell may have read ahead, so nothing
// follows the script until it says that it waits. Versions that nobody has used for a
// month go when another one comes.
const installScript = `crew() {
base=$HOME/.cache/crew
dir=$base/%[1]s
file=$dir/` + engineName + `
new=$dir/new.%[2]s
if ! [ -x "$file" ]; then
	(umask 077 && mkdir -p "$dir") || return
	find "$base" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
	printf '\n%[2]s missing %%s\n' "$(uname -sm)"
	(umask 077 && head -c %[3]d > "$new")
	if [ "$(wc -c < "$new")" -eq %[3]d ] && chmod 700 "$new" && mv -f "$new" "$file"; then
		:
	else
		rm -f "$new"
		rmdir "$dir" 2> /dev/null
		return 1
	fi
fi
touch -c "$dir"
unset CREW_OPTS
printf '\n%[2]s ready\n'
exec "$file" %[4]s
}
crew
exit
`

// program is crew-engine as this process runs it.
type program struct {
	file     *os.File
	size     int64
	hash     string // of its content
	platform string // as uname -sm prints it
}

// openProgram opens this process's own program.
func openProgram() (*program, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", engineName, err)
	}
	h := sha256.New()
	p := &program{file: f}
	if p.size, err = io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("read %s: %w", engineName, err)
	}
	p.hash = hex.EncodeToString(h.Sum(nil))
	var u unix.Utsname
	if err = unix.Uname(&u); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	p.platform = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	return p, nil
}

// errEnded means that a shell has ended. Its status and what it said tell why.
var errEnded = errors.New("it has ended")

// install has the shell of a host become the worker. It brings crew-engine there if
// that is missing. What the host's start-up files print before does not matter.
func (h *host) install(cmd *exec.Cmd, stdin io.Writer, stdout *bufio.Reader) error {
	p, err := h.all.program()
	if err != nil {
		return err
	}
	mark := rand.Text()
	words := h.args()
	for i, w := range words {
		words[i] = task.Quote(w)
	}
	var late atomic.Bool
	timer := time.AfterFunc(answerTime, func() {
		late.Store(true)
		_ = cmd.Process.Kill()
	})
	defer timer.Stop()
	if _, err := fmt.Fprintf(stdin, installScript, p.hash, mark, p.size, strings.Join(words, " ")); err != nil {
		return errEnded
	}
	for {
		line, err := stdout.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && late.Load() {
			return fmt.Errorf("its shell has not answered within %v: trying again", answerTime)
		}
		if err != nil {
			return errEnded
		}
		switch word, platform, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(line)), mark+" "), " "); {
		case !strings.HasPrefix(string(line), mark):
		case word == "ready":
			return nil
		case platform != p.platform:
			return fmt.Errorf("crew runs on %s here, and that is %s: install crew there and have it run crew worker", p.platform, task.Printable(platform))
		default:
			timer.Stop()
			h.arrives(false)
			if !h.down {
				h.say(fmt.Sprintf("copying %s there, %d MiB", engineName, p.size>>20))
			}
			if _, err := io.Copy(stdin, io.NewSectionReader(p.file, 0, p.size)); err != nil {
				return errEnded
			}
		}
	}
}
