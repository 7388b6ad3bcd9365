package ssh

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// processes returns those that copy, on this side or on that one.
func (f far) processes(there bool) (pids []int) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(f.t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file)
		cwd, _ := os.Readlink(filepath.Join(filepath.Dir(file), "cwd"))
		part := bytes.Contains(text, []byte("part."))
		if there && cwd == f.dir && (part || bytes.HasPrefix(text, []byte("dd\x00"))) ||
			!there && part && bytes.Contains(text, []byte("-p\x00"+f.link.Port+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(f.t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestCopyResumed kills what copies, on this side and on that one.
func TestCopyResumed(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			f.link.Hold(f.program.size * 3 / 4)
			p, said, conns := f.start("web1")
			f.holds(said)
			parts, err := filepath.Glob(filepath.Join(f.dir, "part.*"))
			require.NoError(t, err)
			require.Len(t, parts, 1)
			file := filepath.Join(f.s.Home, "bin/sleep")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			crewtest.WriteFile(t, file, "#!/bin/sh\n[ ! -e '"+parts[0]+"' ] || exec /bin/sleep .01\nexec /bin/sleep \"$@\"\n", 0o700) // it is soon found dead
			pids := f.processes(there)
			require.NotEmpty(t, pids)
			for _, pid := range pids {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			}
			f.link.Hold(0)
			works(t, conns, said)
			crewtest.Until(t, func() bool { return strings.Contains(said.String(), "it speaks") }, "words: %s", said)
			p.Close()
			// A part of the script that outlives its shell may complain.
			require.Regexp(t, `^web1: copying crew-engine there, \d+ MiB\nweb1: cannot copy crew-engine there \((it ended early|.*I/O error)\): trying again\nweb1: it is there now\nweb1: it speaks\n$`, said)
			f.once()
		})
	}
}
