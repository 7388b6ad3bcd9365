package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// FuzzNeeds: parsed needs can be formatted and parsed again.
func FuzzNeeds(f *testing.F) {
	crewtest.Seeds(f, "", "gpu", "db:2,net", "a:01", "a,a", "a:,b", "é")
	f.Fuzz(func(t *testing.T, s string) {
		needs, err := ParseNeeds(s)
		if err != nil {
			require.Nil(t, needs)
			return
		}
		var words []string
		for _, n := range needs {
			require.True(t, IsCapName(n.Name) && n.N > 0, "%q", s)
			words = append(words, fmt.Sprintf("%s:%d", n.Name, n.N))
		}
		require.True(t, slices.IsSortedFunc(needs, func(a, b Need) int { return strings.Compare(a.Name, b.Name) }))
		again, err := ParseNeeds(strings.Join(words, ","))
		require.NoError(t, err)
		require.Equal(t, needs, again)
	})
}

func TestUnitsInJSON(t *testing.T) {
	for text, h := range map[string]Holding{
		`[]`: nil, `["gpu:0"]`: {{"gpu", []string{"0"}}}, `["db:0,1","gpu:GPU-1f"]`: {{"db", []string{"0", "1"}}, {"gpu", []string{"GPU-1f"}}},
	} {
		wrote, err := json.Marshal(h)
		require.NoError(t, err)
		require.Equal(t, text, string(wrote))
		var read Holding
		require.NoError(t, json.Unmarshal([]byte(text), &read))
		require.Equal(t, h, read)
	}
}

// A mark with the name of a limit becomes the units, or nothing if the attempt holds none. Marks that nothing
// can have made are ignored.
func TestUnitsFillMarks(t *testing.T) {
	tk := &Task{Argv: []string{"x{gpu}{%}", "{gpu}{db}"}, Marks: []Mark{{Off: 1}, {Off: 6}, {Word: 1}, {Word: 1, Off: 5}, {Off: 2}, {Off: -1}, {Off: 99}, {Off: 9}, {Word: 9}}}
	a := Attempt{Task: tk, Slot: Slot{ID: 7}, Units: []Units{{"gpu", []string{"0", "GPU-1f"}}}}
	require.Equal(t, []string{"x0,GPU-1f7", "0,GPU-1f"}, a.Argv())
	a.Units = nil
	require.Equal(t, []string{"x7", ""}, a.Argv())
	tk.Origin = &Origin{Slot: 9, Units: []Units{{"db", []string{"5"}}}}
	require.Equal(t, []string{"x9", "5"}, a.Exec(), "the run that the attempt is of has them")
	require.True(t, tk.Varies())
}

// A task that runs again keeps the terms about its needs, and loses those about its first start.
func TestAgainKeepsWhatATaskTakes(t *testing.T) {
	needs := []Need{{Name: "gpu", N: 1}}
	for _, c := range []struct{ was, want *Terms }{
		{nil, nil},
		{&Terms{Rank: -3, After: []uint64{1}, Name: "n"}, nil},
		{&Terms{Rank: -3, Held: true, Note: "n", Priority: -5, Weight: 2, Needs: needs}, &Terms{Note: "n", Priority: -5, Weight: 2, Needs: needs}},
	} {
		again := (&Task{ID: 1, Asked: c.was}).Again(9, 3)
		require.Equal(t, c.want, again.Asked)
	}
}
