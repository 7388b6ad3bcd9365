package history

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/keep/journal"
)

// brief returns a line in few words.
func brief(l *Line) string {
	s := l.Name
	if l.Task > 0 {
		s += fmt.Sprint(" ", l.Task)
	}
	if l.Outcome > 0 {
		s += " " + l.Outcome.String()
	}
	if l.Attempt > 1 {
		s += fmt.Sprint(" attempt ", l.Attempt)
	}
	if l.Text != "" {
		s += " " + l.Text
	}
	if len(l.Output) > 0 {
		s += fmt.Sprintf(" %q", l.Output)
	}
	return s
}

// briefs collects lines in few words.
func briefs(list *[]string) func(*Line) {
	return func(l *Line) { *list = append(*list, brief(l)) }
}

// TestStreams checks the lines read from files. Each has the number of its run in front, except for the
// first run.
// § stands for a long text.
func TestStreams(t *testing.T) {
	long := strings.Repeat("x", tailBytes-4)
	crewtest.Examples(t, "testdata/streams.txt", func(t *testing.T, e struct{ Text, Want []string }) {
		text := strings.ReplaceAll(strings.Join(e.Text, "\n"), "§", long)
		for _, rd := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text))} {
			got := []string{}
			require.NoError(t, ReadStream("x.txt", rd, func(l *Line) {
				said := brief(l)
				if l.Run > 1 {
					said = fmt.Sprint(l.Run, " ", said)
				}
				if l.Blocking != nil {
					said += fmt.Sprint(" by ", l.Blocking.By)
				}
				if l.Facts.Command != "" {
					said += " " + string(inUTC(l.Facts).Append(nil))
				}
				got = append(got, strings.ReplaceAll(said, long, "§"))
			}))
			require.Equal(t, e.Want, got)
		}
	})
	long = strings.Repeat("x", journal.MaxLine)
	var texts []io.Reader
	for text := range strings.SplitSeq(row(1, 1, 1, "0\t0\t§")+`{"task":3,"outcome":"ok","stdout":"§"}`+"\n"+row(2, 1, 1), "§") {
		texts = append(texts, strings.NewReader(text), strings.NewReader(long))
	}
	var list []string
	require.NoError(t, ReadStream("x.txt", io.MultiReader(texts[:len(texts)-1]...), briefs(&list)))
	require.Equal(t, []string{"began", "finished 2 ok", "damaged x.txt: 2 damaged lines left out, first line 1, which is too long"}, list)
}

func inUTC(f task.Facts) *task.Facts {
	f.Start = f.Start.UTC()
	return &f
}

// row returns a row of a joblog.
func row(seq int, start, took float64, rest ...string) string {
	end := "0\t0\ttrue"
	if len(rest) > 0 {
		end = rest[0]
	}
	return fmt.Sprintf("%d\t:\t%.3f\t%10.3f\t0\t0\t%s\n", seq, start, took, end)
}

func TestWhatIsNoHistory(t *testing.T) {
	const none = ": it is no joblog, no output of --json, and no directory of --state"
	dir := t.TempDir()
	require.EqualError(t, Read(dir, nil, nil), "read "+dir+none)
	for _, text := range []string{"a\nb\n", "{\n", `{"task":1}`, strings.Repeat("x", 1<<20)} {
		require.EqualError(t, ReadStream("x", strings.NewReader(text), nil), "read x"+none)
	}
	require.EqualError(t, ReadStream("x", iotest.ErrReader(errors.New("broken")), nil), "read x: broken")
}
