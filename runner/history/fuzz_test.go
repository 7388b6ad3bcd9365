package history

import (
	"bytes"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzRead: whatever a file holds, it is read to its end, a run begins before anything is
// told of it, and how the file is read does not matter.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"", "\n\n", header + row(1, 1, 1) + row(2, 5, 1) + row(3, 2, 9) + row(1, 8, 1), "1\t:\t9999999999999.9\t-1\t0\t0\t0\t0\tx",
		`{"task":1,"key":"k","command":{"base64":"/w=="},"outcome":"exit","exit":1,"units":["a:b"],"start":"2026-01-02T03:04:05Z","duration":1e300,` +
			`"attempts":[{"outcome":"lost","stderr":"\ud83d\ude00\ud83d"}],"stdout":{"base64":"/w=="}}`,
		`{"v":2,"event":"watching","hello":{"command":"x"}}` + "\n" + `{"v":2,"task":1,"stream":"stderr","data":"YQ=="}` + "\n" +
			`{"v":2,"event":"finished","task":1,"outcome":"exit"}` + "\n" + `{"v":2,"end":true,"run":{"at":"2026-01-02T03:04:05Z"}}`,
		`{"event":"journal","version":5,"command":"x"}` + "\n" + `{"event":"run","at":"2026-01-02T03:04:05Z"}` + "\n" +
			`{"event":"started","id":"F57IM35Kh6j5OBR4GIhlBg","task":1}` + "\n" +
			`{"event":"attempt","id":"F57IM35Kh6j5OBR4GIhlBg","task":1,"outcome":"exit","retried":true}` + "\n" +
			`{"event":"ended","id":"F57IM35Kh6j5OBR4GIhlBg","task":1,"outcome":"ok","stdout":[0,6,1],"attempts":[1,2,3]}` + "\n" + `{"event":"closed"}`,
		"{\"task\":1,\"outcome\":\"ok\",\"x\":[[{\"a\":[\n", `{"task":1,"outcome":"ok","x":"\u12`, "{{{[[[]]]}}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first := true
		var lines, again []string
		all := briefs(&lines)
		err := ReadStream("x", bytes.NewReader(text), func(l *Line) error {
			require.True(t, !first || l.Name == Began || l.Name == Damaged, l.Name)
			first = false
			require.GreaterOrEqual(t, l.Duration, 0*l.Duration)
			require.LessOrEqual(t, l.At.Year(), 2600)
			require.LessOrEqual(t, len(l.Output), tailBytes)
			_ = l.Start.Add(time.Duration(l.Duration))
			return all(l)
		})
		if err != nil {
			require.ErrorContains(t, err, "no joblog")
			require.Empty(t, lines)
		}
		again = nil
		require.Equal(t, err, ReadStream("x", iotest.OneByteReader(bytes.NewReader(text)), briefs(&again)))
		require.Equal(t, lines, again)
	})
}
