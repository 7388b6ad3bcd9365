package coproc

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// Output on stderr of a record is not lost if another record ends the worker, even if it is long.
// Files that the worker has begun to make go back to the run, which gives them other
// temporary names.
func TestStderrOfARecordThatGoesToTheNextWorker(t *testing.T) {
	t.Parallel()
	c := newFixture(t, Config{}, "sh", "-c", `read -r x
if mkdir once 2>&-; then head -c 100000 /dev/zero >&2; echo >go; sleep 1000; fi
echo '{"id":1,"exit":0}'`)
	c.dir, c.protocol, c.window = t.TempDir(), task.JSONProtocol, 2
	require.NoError(t, mkfifo(c.dir+"/go"))
	c.add(`"args":[],"fields":{}`, `"args":[],"fields":{}`)
	c.queue[0].Task.Makes = &task.Making{}
	go func() {
		_, _ = os.ReadFile(c.dir + "/go")
		c.End(1, 2, 1, errors.New("enough"))
	}()
	c.run()
	require.Equal(t, "ok||", c.show(t, 1))
	require.Equal(t, "cancelled signal 15||", c.show(t, 2))
	require.Equal(t, 100_000, c.stray.Len())
	require.Equal(t, 1, c.returned[1])
}

func TestProgressResetsTheTimeout(t *testing.T) {
	t.Parallel()
	c := newFixture(t, Config{}, "sh", "-c", `read -r x
case $x in *'"id":1,'*)
	for i in 1 2 3 4 5 6; do sleep 0.1; echo '{"id":1,"progress":'$i'}'; done
	echo '{"id":1,"exit":0}'
	read -r x
esac
sleep 1000`)
	c.Limit.Timeout = 200 * time.Millisecond
	c.protocol = task.JSONProtocol
	c.add(`"args":[],"fields":{}`, `"args":[],"fields":{}`)
	c.run()
	require.Contains(t, []string{"ok||", "timeout signal 15||"}, c.show(t, 1)) // the latter on a slow machine
	require.Equal(t, "timeout signal 15||", c.show(t, 2))
}

func FuzzParseReply(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"exit":0,"stdout":"a\n","stderr":"\u00e9"}`, `{"id":1,"progress":{}}`, `{"id":-1}`, `{"id":1,"exit":256}`, `{`, `[]`,
		`{"id":1,"exit":0,"stdout":{"base64":"AAE="}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, fault := parseReply(line)
		if fault != "" {
			return
		}
		require.NotNil(t, r.ID)
		require.True(t, r.Exit != nil || r.Progress != nil)
		require.True(t, r.Exit == nil || *r.Exit >= 0 && *r.Exit <= 255)
	})
}

// FuzzLines splits a stream of answers into arbitrary reads.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n\nccc\n"), uint8(1))
	f.Add(bytes.Repeat([]byte("long"), 40_000), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		stream = append(stream, '\n')
		want := bytes.SplitAfter(stream, []byte("\n"))
		want = want[:len(want)-1]
		l := loopOwing(t, len(want))
		for p := stream; len(p) > 0; {
			n := copy(l.w.buf[l.w.to:], p[:min(len(p), 1+int(size)*97)])
			l.w.to += n
			p = p[n:]
			l.w.takeLines()
		}
		require.Len(t, l.ended, len(want))
		for i, r := range l.ended {
			var b bytes.Buffer
			_, err := r.Stdout.WriteTo(&b)
			require.NoError(t, err)
			require.Equal(t, string(want[i]), b.String())
			r.Close()
		}
	})
}
