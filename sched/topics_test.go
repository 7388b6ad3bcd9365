package sched

import (
	"fmt"
	"strings"
	"testing"

	"crew/runner/crewtest"

	"github.com/stretchr/testify/require"
)

func TestParseTopics(t *testing.T) {
	type row struct {
		In   string
		List []struct {
			Name    string
			Workers int
		}
		Rest int
		Err  string
	}
	crewtest.Examples(t, "testdata/topics.jsonl", func(t *testing.T, row row) {
		got, err := ParseTopics(row.In)
		if row.Err != "" {
			require.ErrorContains(t, err, row.Err)
			return
		}
		require.NoError(t, err)
		want := Topics{Rest: row.Rest, Auto: row.List == nil}
		for _, topic := range row.List {
			want.List = append(want.List, Topic{Hash(topic.Name), topic.Workers})
		}
		require.Equal(t, want, got)
	})
}

// FuzzParseTopics checks that Workers counts the workers of all topics.
func FuzzParseTopics(f *testing.F) {
	crewtest.Seeds(f, "auto", "mail=2,db=1,*=5", "a=b=3", "=1", ",", "x=01")
	f.Fuzz(func(t *testing.T, s string) {
		topics, err := ParseTopics(s)
		if err != nil || topics.Auto {
			return
		}
		sum := 0
		for part := range strings.SplitSeq(s, ",") {
			n := 0
			_, err := fmt.Sscan(strings.TrimLeft(part[strings.LastIndexByte(part, '=')+1:], "+0"), &n)
			require.NoError(t, err)
			sum += n
		}
		require.Equal(t, sum, topics.Workers())
	})
}
