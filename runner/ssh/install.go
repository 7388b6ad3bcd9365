package ssh

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

const programName = "crew-engine"

// installScript is for /bin/sh on a host. It reads crew-engine from its standard input if
// that is missing, and becomes it. The shell may read ahead, so crew-engine is sent only
// once the script asks for it. A new version removes those unused for a month.
const installScript = `crew() {
base=$HOME/.cache/crew
dir=$base/%[1]s
file=$dir/` + programName + `
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
exec "$file"%[4]s
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

// openProgram opens the program of this process.
func openProgram() (*program, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", programName, err)
	}
	h := sha256.New()
	p := &program{file: f}
	if p.size, err = io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("read %s: %w", programName, err)
	}
	p.hash = hex.EncodeToString(h.Sum(nil))
	var u unix.Utsname
	if err = unix.Uname(&u); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	p.platform = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	return p, nil
}

// errEnded means that a shell has ended. Its status and its stderr tell why.
var errEnded = errors.New("it has ended")

// install makes the shell of a host become the worker, and copies crew-engine there if
// that is missing.
func (h *host) install(cmd *exec.Cmd, stdin io.Writer, stdout *bufio.Reader) error {
	p, err := h.all.program()
	if err != nil {
		return err
	}
	var late atomic.Bool
	timer := time.AfterFunc(answerTime, func() {
		late.Store(true)
		_ = cmd.Process.Kill()
	})
	defer timer.Stop()
	mark, args := rand.Text(), ""
	for _, arg := range h.Args {
		args += " " + task.Quote(arg)
	}
	if _, err := fmt.Fprintf(stdin, installScript, p.hash, mark, p.size, args); err != nil {
		return errEnded
	}
	for {
		word, platform, err := answer(stdout, mark)
		switch {
		case err != nil && late.Load():
			return fmt.Errorf("its shell has not answered within %v: trying again", answerTime)
		case err != nil:
			return errEnded
		case word == "ready":
			return nil
		case platform != p.platform:
			return fmt.Errorf("crew runs on %s here, and that is %s: install crew there and have it run crew worker", p.platform, task.Printable(platform))
		}
		timer.Stop()
		h.arrives(false)
		if !h.down {
			h.say(fmt.Sprintf("copying %s there, %d MiB", programName, p.size>>20))
		}
		if _, err := io.Copy(stdin, io.NewSectionReader(p.file, 0, p.size)); err != nil {
			return errEnded
		}
	}
}

// answer reads what the script says after its mark. It skips what start-up files print.
func answer(stdout *bufio.Reader, mark string) (word, rest string, err error) {
	for {
		line, err := stdout.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return "", "", err
		}
		if text, found := strings.CutPrefix(string(line), mark+" "); found {
			word, rest, _ = strings.Cut(strings.TrimSpace(text), " ")
			return word, rest, nil
		}
	}
}
