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

// installScript is run by /bin/sh on a host. The shell becomes crew-engine, the version with hash $1
// for the platform $2, which has $3 bytes. If that is missing, the script copies the longest part of it
// on the host to a part of its own, prints how long that is, and reads the rest from stdin. Another
// shell may still be writing to the part that it copies. The first shell to finish removes all parts,
// so the others find theirs gone and crew-engine in place. Installing a new version removes the
// versions that have not been used for a month: it looks only into directories whose name is a hash,
// and removes only files with names that crew gives. The shell may read ahead, so the rest is sent only
// once the script has answered.
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

// install makes the shell of a host become the worker, and copies crew-engine there if it is missing.
// If install does not get as far as the worker, the reason is in its error or in the shell's exit
// status and stderr.
func (h *host) install(cmd *exec.Cmd, stdin io.Writer, stdout *bufio.Reader) (err error) {
	timer := time.AfterFunc(answerTime, func() { _ = cmd.Process.Kill() })
	defer func() {
		if h.stage == starting && !timer.Stop() {
			err = fmt.Errorf("its shell did not answer within %v: trying again", answerTime)
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
		word, rest := readAnswer(stdout, mark)
		if word == "missing" {
			h.setStage(copying)
			timer.Stop()
			h.all.copies <- struct{}{}
			h.copy(p, rest, stdin)
			word, _ = readAnswer(stdout, mark)
			<-h.all.copies
		}
		if word == "ready" {
			h.setStage(running)
			timer.Stop()
		}
		if word != "other" {
			return nil
		}
		h.platform = rest
	}
}

// readAnswer reads the next line of the script that begins with mark, and skips all others, such as
// output of start-up files. It returns "" if the script has ended.
func readAnswer(stdout *bufio.Reader, mark string) (word, rest string) {
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
