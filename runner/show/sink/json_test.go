package sink

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// stretch is a long output that repeats a text.
type stretch struct {
	spool.Text
	n int64
}

func (s stretch) Len() int64 { return s.n }

func (s stretch) WriteTo(w io.Writer) (int64, error) {
	for done := int64(0); done < s.n; done += int64(len(s.Text)) {
		if _, err := w.Write(s.Text); err != nil {
			return done, err
		}
	}
	return s.n, nil
}

func TestLargeOutputDoesNotPassThroughTheHeap(t *testing.T) {
	for name, text := range map[string]string{"text": "\tä\n", "bytes": "a\xff"} {
		piece := strings.Repeat(text, 1000)
		e := ended(1, task.Result{Outcome: task.OK, Stdout: stretch{spool.Text(piece), int64(len(piece)) * 15_000}})
		s := NewStdout(NewScreen(io.Discard, io.Discard), StdoutConfig{Plan: task.Plan{Show: task.ShowObjects}})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		consume(t, s, e)
		runtime.ReadMemStats(&after)
		require.Less(t, after.HeapSys, before.HeapSys+(32<<20), name)
	}
}

// crumbs is an output that writes itself a few bytes at a time.
type crumbs struct {
	spool.Text
	rnd *rand.Rand
}

func (c crumbs) WriteTo(w io.Writer) (int64, error) {
	for p := []byte(c.Text); len(p) > 0; {
		n := c.rnd.IntN(len(p) + 1)
		if _, err := w.Write(p[:n]); err != nil {
			return 0, err
		}
		p = p[n:]
	}
	return c.Len(), nil
}

func FuzzJSONString(f *testing.F) {
	crewtest.Seeds(f, "", "a", "\"\\\b\f\n\r\t\x00\x7f<&>", "ä€😀", "\xff\xc3", "\u2028", "a\xe2\x82", "é\xff€", "\U0010FFFFa", "\xf0\x9f\x98")
	f.Fuzz(func(t *testing.T, s string) {
		for round := range 20 { // with other sizes each time
			var b bytes.Buffer
			j := object{outputs: true}
			require.NoError(t, j.write(&b, &task.Task{ID: 1}, &task.Result{Stdout: crumbs{spool.Text(s), crewtest.Rand(t, round)}}))
			var o struct{ Stdout task.Bytes }
			require.NoError(t, json.Unmarshal(b.Bytes(), &o))
			require.EqualValues(t, s, o.Stdout)
			require.Equal(t, utf8.ValidString(s), !bytes.Contains(b.Bytes(), []byte("base64")), "only what is no text is encoded")
		}
	})
}
