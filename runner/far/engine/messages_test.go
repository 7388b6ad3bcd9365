package engine

import (
	"encoding/hex"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/far/travel"
)

// FuzzWire: each kind of message stays the same when it is encoded and decoded.
func FuzzWire(f *testing.F) {
	for _, msg := range [][]byte{
		encode(kindAttempt, &Attempt{ID: ID{"r", 1, 2, 3, 4}, Argv: []string{"echo", "a\xff"}, Records: [][]string{{"a", ""}, {}}}),
		encode(kindAttempt, &Attempt{Trip: travel.Trip{Take: []travel.File{{Path: "a", Blob: travel.Blob{Name: "b", Size: 1}, Mode: 0o644, Base: true}}}, Expires: time.Unix(1, 2), Stdin: []byte("x")}),
		encode(kindAttempt, &Attempt{Units: []task.Units{{Name: "gpu", Held: []string{"0", "GPU-1f"}}}, Caps: []string{"gpu", "db"}}),
		encode(kindAttempt, &Attempt{Stdin: []byte("x"), HasStdin: true, Protocol: task.JSONProtocol, Life: task.Life{Ready: "^r", Start: 5, Records: 3, Age: 4}}),
		encode(kindFinal, &Final{ID: ID{"r", 1, 2, 3, 4}, Facts: known(), Stdout: FinalOutput{At: 5, Text: []byte("x")}}),
	} {
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		stays[Attempt](t, msg, kindAttempt)
		stays[Final](t, msg, kindFinal)
	})
}

func stays[T any](t *testing.T, msg []byte, kind byte) {
	if v, err := decode[T](msg, kind); err == nil {
		msg = encode(kind, v) // now with times in UTC
		again, err := decode[T](msg, kind)
		require.NoError(t, err)
		require.Equal(t, msg, encode(kind, again))
	}
}

// known returns facts in which every field differs from zero.
func known() task.Facts {
	return task.Facts{
		Task: 1, Key: "k", Command: "c", Outcome: task.Exit, Exit: status(3), Signal: 4, Error: "no", Attempt: 5, Worker: 6, Host: "h", Units: task.Holding{{Name: "u", Held: []string{"v"}}}, PID: 7,
		Start: time.Unix(8, 9).UTC(), Duration: 10, User: 11, System: 12, MaxRSS: 13, Leaked: true, Cut: 14,
	}
}

// A change of this message, for instance by another fact, needs another Version.
func TestFactsOnTheWire(t *testing.T) {
	f := known()
	for v, i := reflect.ValueOf(f), 0; i < v.NumField(); i++ {
		require.False(t, v.Field(i).IsZero(), "known lacks one")
	}
	msg := encode(kindFinal, &Final{Facts: f})
	require.Equal(t, 23, Version)
	require.Contains(t, hex.EncodeToString(msg), "01616b6163020304626e6f0506616881a2644e616d6561756448656c6481617607781e313937302d30312d30315430303a30303a30382e3030303030303030395a0a0b0c0df50e")
	got, err := decode[Final](msg, kindFinal)
	require.NoError(t, err)
	require.Equal(t, f, got.Facts)
}

func FuzzParts(f *testing.F) {
	f.Add([]byte("a"), []byte("bc"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for range splitMessages(a) { // no panic, whatever the parts are
		}
		a, b = encode(kindAttempt, &Attempt{Stdin: a}), encode(kindFinal, &Final{Stdout: FinalOutput{Text: b}})
		require.Equal(t, [][]byte{a, b}, slices.Collect(splitMessages(slices.Concat(a, b))))
	})
}
