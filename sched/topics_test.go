package sched

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseTopics(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Topics
		err  string
	}{
		{in: "auto", want: Topics{Auto: true}},
		{in: "mail=2,db=1,*=5", want: Topics{List: []Topic{{Hash("mail"), 2}, {Hash("db"), 1}}, Rest: 5}},
		{in: "a=b=3", want: Topics{List: []Topic{{Hash("a=b"), 3}}}},
		{in: "auto=1", want: Topics{List: []Topic{{Hash("auto"), 1}}}},
		{in: "", err: "write auto"},
		{in: "mail", err: "write auto"},
		{in: "=1", err: "write auto"},
		{in: "mail=1,=2", err: "write auto"},
		{in: "mail=", err: `"" is not a number`},
		{in: "mail=0", err: "is not a number of workers"},
		{in: "mail=-1", err: "is not a number of workers"},
		{in: "mail=9999999999", err: "is not a number of workers"},
		{in: "mail=1,", err: "write auto"},
		{in: "mail=1,mail=2", err: "twice"},
		{in: "*=1,*=2", err: "twice"},
	} {
		got, err := ParseTopics(c.in)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.in)
			continue
		}
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, got, c.in)
	}
}

func FuzzParseTopics(f *testing.F) {
	for _, s := range []string{"auto", "mail=2,db=1,*=5", "a=b=3", "=1", ",", "x=01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		topics, err := ParseTopics(s)
		if err != nil {
			return
		}
		if topics.Auto {
			return
		}
		// Each part must appear in the result, in order.
		i, sum := 0, 0
		for part := range strings.SplitSeq(s, ",") {
			name := part[:strings.LastIndexByte(part, '=')]
			var n int
			if name == "*" {
				n = topics.Rest
			} else {
				require.Equal(t, Hash(name), topics.List[i].Key)
				n = topics.List[i].Workers
				i++
			}
			var want int
			_, err := fmt.Sscan(strings.TrimLeft(part[len(name)+1:], "+0"), &want)
			require.NoError(t, err)
			require.Equal(t, want, n)
			sum += n
		}
		require.Len(t, topics.List, i)
		require.Equal(t, sum, topics.Workers())
	})
}
