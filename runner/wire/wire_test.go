package wire

import (
	"encoding/hex"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// all has a field of each kind that can be sent.
type all struct {
	On     bool
	Int    int
	Length time.Duration
	Byte   byte
	Small  uint32
	Big    uint64
	Text   string
	Sum    [3]byte
	Data   []byte
	List   []string
	Parts  []Part
	Known  *Part
	Since  time.Time
	Part
}

type Part struct{ N int }

func FuzzDecode(f *testing.F) {
	for _, v := range []all{
		{},
		{On: true, Int: -mostInt - 1, Length: mostBig, Byte: 255, Small: math.MaxUint32, Big: mostBig},
		{Text: "a\xff", Sum: [3]byte{1}, Data: []byte("x"), List: []string{"", "b"}, Parts: []Part{{}, {-1}}},
		{Known: &Part{}, Since: time.Unix(1, 2), Part: Part{3}},
	} {
		b := Append(nil, &v)
		got := all{}
		require.NoError(f, Decode(b, &got))
		require.Equal(f, v, got)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again all
		if Decode(b, &v) != nil {
			return
		}
		require.NoError(t, Decode(Append(nil, &v), &again))
		require.Equal(t, v, again)
	})
}

// Both sides may be of different builds, so the bytes must not change.
func TestBytes(t *testing.T) {
	b := Append([]byte("head"), &all{Int: -2, Text: "abc", List: []string{"d"}, Part: Part{1}})
	require.Equal(t, "68656164"+"4222"+"03"+"03616263"+"010164"+"01"+"02", hex.EncodeToString(b))
}

func TestGarbage(t *testing.T) {
	whole := Append(nil, &all{On: true, Text: "abc", Data: []byte("de"), Known: &Part{7}})
	for n := range whole {
		require.ErrorIs(t, Decode(whole[:n], &all{}), ErrGarbage)
	}
	require.ErrorIs(t, Decode(append(whole, 0), &all{}), ErrGarbage, "there is more")
	require.ErrorIs(t, Decode([]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, new(string)), ErrGarbage, "longer than the message")
}
