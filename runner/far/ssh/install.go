package ssh

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"crew/runner/decide/task"
)

const programName = "crew-engine"

// installScript is for /bin/sh on a host. It becomes crew-engine, the one of hash $1 for
// the platform $2, which has $3 bytes. If that is missing, it goes on from a copy of the longest
// part of it that is there, which another shell may still write to: it says how long that is, and
// reads the rest. Who comes first removes all parts, so the others find theirs gone, and
// crew-engine there. A new version removes those unused for a month: in directories with the name of
// a hash, what has a name that crew gives. The shell may read ahead, so what follows the
// script is sent only once the script has answered.
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
	part=part.%[1]s from=$(ls -S part.* 2> /dev/null | head -n 1)
	length() { set -- $(ls -ln $part); echo "$5"; }
	cat "$from" 2> /dev/null > $part
	have=$(length)
	[ "$have" -le "$3" ] || { : > $part; have=0; }
	printf '\n%[1]s missing %%s\n' "$have"
	head -c $(($3 - have)) >> $part || exit 9
	if [ "$(length)" -ne "$3" ]; then
		if [ -x ` + programName + ` ]; then rm -f $part; else echo "it ended early" >&2; fi
		exit 1
	fi
	sum=$(sha256sum $part 2> /dev/null || shasum -a 256 $part 2> /dev/null || sha256 -q $part) || exit
	case $sum in
	"$1"*) ;;
	*) rm -f $part "$from"; echo "the copy was damaged" >&2; exit 1 ;;
	esac
	sync $part 2> /dev/null
	[ -e $part ] || [ ! -x ` + programName + ` ] || exit 1
	chmod 700 $part && mv -f $part ` + programName + ` && rm -f part part.*
) || { [ $? -ne 9 ] && [ -x "$dir/` + programName + `" ]; } || exit
touch -c "$dir"
unset CREW_OPTS
printf '\n%[1]s ready\n'
exec "$dir/` + programName + `"%[2]s
}
`

// install makes the shell of a host become the worker, and copies crew-engine there if
// that is missing. If it does not get to the worker, the status and stderr of the shell tell why,
// or the error.
func (h *host) install(cmd *exec.Cmd, stdin io.Writer, stdout *bufio.Reader) (err error) {
	timer := time.AfterFunc(answerTime, func() { _ = cmd.Process.Kill() })
	defer func() {
		if h.at == starting && !timer.Stop() {
			err = fmt.Errorf("its shell has not answered within %v: trying again", answerTime)
		}
		if err != nil {
			_ = cmd.Process.Kill()
		}
	}()
	mark, args := rand.Text(), ""
	for _, arg := range h.Args {
		args += " " + task.Quote(arg)
	}
	script := fmt.Sprintf(installScript, mark, args, strings.Repeat("[0-9a-f]", 2*sha256.Size))
	for {
		p, err := h.all.programs.get(h.platform)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(stdin, "%screw %s %s %d\n", script, p.hash, task.Quote(p.platform), p.size)
		script = ""
		word, rest := answer(stdout, mark)
		if word == "missing" {
			h.arrives(copying)
			timer.Stop()
			h.all.copies <- struct{}{}
			h.copy(p, rest, stdin)
			word, _ = answer(stdout, mark)
			<-h.all.copies
		}
		if word == "ready" {
			h.arrives(running)
			timer.Stop()
		}
		if word != "other" {
			return nil
		}
		h.platform = rest
	}
}

// answer reads what the script says after its mark, or "" if it has ended. It skips what start-up
// files print.
func answer(stdout *bufio.Reader, mark string) (word, rest string) {
	for {
		line, err := stdout.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return "", ""
		}
		if text, found := strings.CutPrefix(string(line), mark+" "); found {
			word, rest, _ = strings.Cut(strings.TrimSpace(text), " ")
			return word, rest
		}
	}
}
