package wire

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// all has a field of each kind that is sent.
type all struct {
	On     bool
	Int    int
	Length time.Duration
	Byte   byte
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
		{On: true, Int: -maxInt, Length: maxBig, Byte: 255, Big: maxBig},
		{Text: "a\xff", Sum: [3]byte{1}, Data: []byte("x"), List: []string{"", "b"}, Parts: []Part{{}, {-1}}},
		{Known: &Part{}, Since: time.Unix(1, 2).UTC(), Part: Part{3}},
	} {
		b := Append(nil, v)
		got := all{}
		require.NoError(f, Decode(b, &got))
		require.Equal(f, v, got)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Rest(b)
		var v, again all
		if Decode(b, &v) != nil {
			return
		}
		b = Append(nil, v) // times in UTC
		require.NoError(t, Decode(b, &again))
		require.Equal(t, b, Append(nil, again))
	})
}

func TestGarbage(t *testing.T) {
	whole := Append(nil, all{On: true, Text: "abc", Data: []byte("de"), Known: &Part{7}})
	for n := range whole {
		require.ErrorIs(t, Decode(whole[:n], &all{}), ErrGarbage)
		require.Empty(t, Rest(whole[:n]))
	}
	require.ErrorIs(t, Decode(append(whole, 0), &all{}), ErrGarbage, "there is more")
	require.Equal(t, []byte{0}, Rest(append(whole, 0)))
	for _, v := range []all{
		{Int: maxInt + 1}, {Length: math.MinInt64}, {Big: math.MaxUint64}, {Parts: []Part{{0}, {-maxInt - 1}}}, {Known: &Part{math.MaxInt}}, {Since: time.Unix(math.MaxInt32*9, 0)},
	} {
		require.ErrorIs(t, Decode(Append(nil, v), &all{}), ErrGarbage, "%v", v)
	}
}
