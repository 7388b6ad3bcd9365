package engine

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/runner/travel"
	"crew/runner/wiring"
)

// FuzzWire has each kind of message that can be read be the same once it is written and read again.
func FuzzWire(f *testing.F) {
	for _, msg := range [][]byte{
		(&Attempt{ID: ID{"r", 1, 2, 3}, Argv: []string{"echo", "a\xff"}, Records: [][]string{{"a", ""}, {}}}).Encode(),
		(&Attempt{Take: []travel.File{{Path: "a", Blob: travel.Blob{Name: "b", Size: 1}, Mode: 0o644, Base: true}}, Expires: time.Unix(1, 2), Stdin: []byte("x")}).Encode(),
		(&Attempt{Units: []task.Units{{Name: "gpu", Held: []string{"0", "GPU-1f"}}}, Caps: []string{"gpu", "db"}}).Encode(),
		(&Attempt{Stdin: []byte("x"), HasStdin: true, Protocol: task.JSONProtocol, Life: wiring.Life{Ready: "^r", Start: 5, Records: 3, Age: 4}}).Encode(),
		(&Chunk{ID: ID{"r", 1, 2, 3}, Stderr: true, Offset: 5, Data: []byte("x")}).Encode(),
		(&Final{ID: ID{"r", 1, 2, 3}, Facts: known(), Argv: []string{""}, Stdout: Written{Text: []byte("x")}}).Encode(),
	} {
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		stays(t, msg, DecodeAttempt, (*Attempt).Encode)
		stays(t, msg, DecodeChunk, (*Chunk).Encode)
		stays(t, msg, DecodeFinal, (*Final).Encode)
	})
}

func stays[T any](t *testing.T, msg []byte, read func([]byte) (*T, error), write func(*T) []byte) {
	if v, err := read(msg); err == nil {
		again, err := read(write(v))
		require.NoError(t, err)
		require.Equal(t, v, again)
	}
}

// known returns facts of which each differs from zero.
func known() task.Facts {
	return task.Facts{
		Task: 1, Key: "k", Command: "c", Outcome: task.Exit, Exit: status(3), Signal: 4, Error: "no", Attempt: 5, Worker: 6, Host: "h", Units: task.Holding{{Name: "u", Held: []string{"v"}}}, PID: 7,
		Start: time.Unix(8, 9), Duration: 10, User: 11, System: 12, MaxRSS: 13, Leaked: true,
	}
}

// A change of this message, as by a fact more, needs another Version.
func TestFactsOnTheWire(t *testing.T) {
	f := known()
	for v, i := reflect.ValueOf(f), 0; i < v.NumField(); i++ {
		require.False(t, v.Field(i).IsZero(), "known lacks one")
	}
	msg := (&Final{Facts: f}).Encode()
	require.Equal(t, 13, Version)
	require.Contains(t, hex.EncodeToString(msg), "ffff0301016b016302010608026e6f0a0c0168010301750101760e92c0b2cd3b1416181a01")
	got, err := DecodeFinal(msg)
	require.NoError(t, err)
	require.Equal(t, f, got.Facts)
}

func FuzzParts(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for range parts(a) { // whatever it is
		}
		if len(a) == 0 || len(b) == 0 {
			return
		}
		var got []string
		for p := range parts(bundle([][]byte{a, b})) {
			got = append(got, string(p))
		}
		require.Equal(t, []string{string(a), string(b)}, got)
	})
}
