package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/runner/wiring"
)

func FuzzAttempt(f *testing.F) {
	f.Add((&Attempt{ID: ID{"r", 1, 2, 3}, Argv: []string{"echo", "a\xff"}, Records: [][]string{{"a", ""}, {}}}).Encode())
	f.Add((&Attempt{Take: []File{{"a", "b", 0o644, true}}, Expires: time.Unix(1, 2), Stdin: []byte("x")}).Encode())
	f.Add((&Attempt{Stdin: []byte("x"), HasStdin: true, Protocol: task.JSONProtocol, Life: wiring.Life{Ready: "^r", Start: 5, Records: 3, Age: 4}}).Encode())
	f.Fuzz(func(t *testing.T, msg []byte) {
		a, err := DecodeAttempt(msg)
		if err != nil {
			return
		}
		again, err := DecodeAttempt(a.Encode())
		require.NoError(t, err)
		require.Equal(t, a, again)
	})
}

func FuzzResult(f *testing.F) {
	f.Add((&Chunk{ID: ID{"r", 1, 2, 3}, Stderr: true, Offset: 5, Data: []byte("x")}).Encode())
	f.Add((&Final{ID: ID{"r", 1, 2, 3}, Outcome: task.Exit, Code: 3, Err: "no", Argv: []string{""}, Records: [][]string{{"a"}}, Key: "k", Stdout: []byte("x")}).Encode())
	f.Fuzz(func(t *testing.T, msg []byte) {
		if c, err := DecodeChunk(msg); err == nil {
			again, err := DecodeChunk(c.Encode())
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
		if r, err := DecodeFinal(msg); err == nil {
			again, err := DecodeFinal(r.Encode())
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	s, err := startServer(privateServer(t.TempDir()))
	require.NoError(t, err)
	defer s.Shutdown()
	c, err := dial("", nil, within(s))
	require.NoError(t, err)
	defer c.close()
	l := diskLimits
	require.NoError(t, c.create(t.Context(), l))
	require.NoError(t, c.create(t.Context(), l), "again")
}
