package ssh

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"crew/runner/task"
)

const programName = "crew-engine"

// installScript is for /bin/sh on a host. It becomes crew-engine, the one of hash $1 for
// the platform $2. If that is missing, it takes the part of it that is there under a name
// of its own, so that only one does, says how long it is, and waits until it is whole. A
// part that another one has taken is free again if nothing comes of it for about half a
// minute. A new version removes those unused for a month: in directories with the name of a hash,
// what has a name that crew gives. The shell may read ahead, so
// crew-engine's input is sent only once the script is ready.
const installScript = `crew() {
platform=$(uname -sm || echo unknown) base=$HOME/.cache/crew dir=$HOME/.cache/crew/$1
if [ "$platform" != "$2" ]; then
	printf '\n%[1]s other %%s\n' "$platform"
	return
fi
[ -x "$dir/` + programName + `" ] || (
	umask 077
	mkdir -p "$dir" && touch "$dir" && cd "$dir" || exit
	find "$base" -mindepth 1 -maxdepth 1 -type d -name "%[3]s" -mtime +30 -exec sh -c '
		rm -f "$0/` + programName + `" "$0/part" "$0"/part.*; rmdir "$0"' {} \; 2> /dev/null
	set -- part*
	[ -e "$1" ] || : >> part || exit
	told= was= n=0
	until [ -x ` + programName + ` ]; do
		if [ -e part ] && mv part part.%[1]s 2> /dev/null; then
			set -- $(ls -ln part.%[1]s)
			printf '\n%[1]s missing %%s\n' "$5"
			told=1
		fi
		[ "$told" ] || printf '\n%[1]s wait\n'
		told=1 now=$(ls -ln part* 2> /dev/null)
		[ "$now" = "$was" ] || n=0
		was=$now n=$((n + 1))
		if [ $n -ge 150 ]; then
			for part in part.*; do mv -f "$part" part; done 2> /dev/null
			: >> part || exit
			n=0
		fi
		sleep .2 2> /dev/null || sleep 1
		printf '\n' || exit
	done
) || exit
touch -c "$dir"
unset CREW_OPTS
printf '\n%[1]s ready\n'
exec "$dir/` + programName + `"%[2]s
}
`

// errEnded means that a shell has ended. Its status and its stderr tell why.
var errEnded = errors.New("it has ended")

// install makes the shell of a host become the worker, and copies crew-engine there if
// that is missing.
func (h *host) install(cmd *exec.Cmd, stdin io.Writer, stdout *bufio.Reader) error {
	var why atomic.Pointer[error]
	fail := func(err error) {
		if why.CompareAndSwap(nil, &err) {
			_ = cmd.Process.Kill()
		}
	}
	timer := time.AfterFunc(answerTime, func() {
		fail(fmt.Errorf("its shell has not answered within %v: trying again", answerTime))
	})
	err := h.converse(stdin, stdout, fail, timer)
	timer.Stop()
	if err != nil && err != errEnded {
		fail(err)
	}
	if cause := why.Load(); cause != nil {
		return *cause
	}
	return err
}

// converse runs installScript. It stops the timer when a copy is needed, and calls fail if
// the copy fails.
func (h *host) converse(stdin io.Writer, stdout *bufio.Reader, fail func(error), timer *time.Timer) error {
	p, err := h.all.programs.get(h.platform)
	if err != nil {
		return err
	}
	mark, args := rand.Text(), ""
	for _, arg := range h.Args {
		args += " " + task.Quote(arg)
	}
	script := fmt.Sprintf(installScript, mark, args, strings.Repeat("[0-9a-f]", 2*sha256.Size))
	for {
		if _, err := fmt.Fprintf(stdin, "%screw %s %s\n", script, p.hash, task.Quote(p.platform)); err != nil {
			return errEnded
		}
		other, err := h.attend(p, mark, stdout, fail, timer)
		if err != nil || other == "" {
			return err
		}
		script, h.platform = "", other
		if p, err = h.all.programs.get(other); err != nil {
			return err
		}
	}
}

// attend does what the script asks for until it becomes p, or says that the host is
// another platform.
func (h *host) attend(p *program, mark string, stdout *bufio.Reader, fail func(error), timer *time.Timer) (other string, err error) {
	var c *copying
	defer func() { c.leave() }()
	for {
		word, rest, err := answer(stdout, mark)
		if err != nil {
			return "", errEnded
		}
		switch word {
		case "ready":
			c.end()
			return "", nil
		case "other":
			return rest, nil
		case "wait":
			h.awaits(timer)
			if !h.down {
				h.say(programName + " is being copied there already")
			}
		case "missing":
			h.awaits(timer)
			if !c.ended() {
				return "", fmt.Errorf("the copy of %s has come to a halt: trying again", programName)
			}
			if c, err = h.copy(p, mark, rest, fail); err != nil {
				return "", err
			}
		}
	}
}

// awaits notes that the host answers and lacks crew-engine.
func (h *host) awaits(timer *time.Timer) {
	timer.Stop()
	h.arrives(false)
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
