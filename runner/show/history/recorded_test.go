package history

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestRecorded reads records of real runs: --state directories, the output of --json and of ctl watch,
// and a joblog of GNU parallel.
func TestRecorded(t *testing.T) {
	crewtest.Examples(t, "testdata/recorded.jsonl", func(t *testing.T, c struct {
		It, Name string
		Want     []string
	}) {
		list := []string{}
		all := briefs(&list)
		require.NoError(t, Read(filepath.Join("testdata", "recorded", c.Name), nil, func(l *Line) {
			require.True(t, l.Name == "started" || l.Start.IsZero() == (l.Name != "finished" && l.Name != "retried"))
			if l.Name == Began {
				l.Text = ""
			}
			all(l)
		}))
		require.Equal(t, c.Want, list, c.It)
	})
}

// TestFolds checks the stories of testdata/folds.txt: lines of runs and, after >, what the report then
// says.
func TestFolds(t *testing.T) {
	crewtest.Stories(t, "testdata/folds.txt", func(t *testing.T, lines []string) {
		f := NewFold()
		for _, text := range lines {
			check, is := strings.CutPrefix(text, "> ")
			if source, of := strings.CutPrefix(text, "source "); of {
				f.Source(source)
				continue
			} else if !is {
				f.Add(lineOf(t, text))
				continue
			}
			path, want, _ := strings.Cut(check, ": ")
			require.Equal(t, want, reported(t, f.Report(), path), path)
		}
	})
}

// lineOf parses a line: its name, its time or its start and end in seconds, task, attempt @ worker, and
// outcome.
func lineOf(t *testing.T, text string) *Line {
	words := append(strings.Fields(text), "", "", "", "")
	at, _ := strconv.ParseFloat(words[1], 64)
	to, err := strconv.ParseFloat(words[2], 64)
	switch name := words[0]; name {
	case "began":
		return beganAt(at, strings.TrimSpace(strings.Join(words[2:], " ")))
	case "admitted":
		return about(name, at, uint64(to))
	case "started":
		id, attempt, worker := placeOf(t, words[2])
		return startedOn(worker, at, id, attempt)
	case "finished", "retried", "again", "known":
		require.NoError(t, err, text)
		place := words[3:]
		if name == "known" { // by the run that begins at the first time
			at, _ = strconv.ParseFloat(words[2], 64)
			to, _ = strconv.ParseFloat(words[3], 64)
			place = words[4:]
		}
		var o task.Outcome
		require.NoError(t, o.UnmarshalText([]byte(place[1])), text)
		id, attempt, worker := placeOf(t, place[0])
		l := endedAs(map[bool]string{true: "retried", false: "finished"}[name == "retried"], o, worker, at, to, id, attempt)
		if attempt == 0 { // there was none
			l.Start = time.Time{}
		}
		if l.Again = name == "again"; name == "known" {
			l.At = lineOf(t, "over "+words[1]).At
		}
		return l
	default:
		l := said(name, at)
		l.Workers = int(to)
		if name == "draining" {
			l.Text = words[2]
		}
		if words[2] != "" && name == "blocked" {
			l.Blocking = &task.Blocking{By: task.Cause(words[2]), Shown: strings.TrimSpace(strings.Join(words[3:], " "))}
		}
		return l
	}
}

func placeOf(t *testing.T, word string) (id uint64, attempt, worker int) {
	_, err := fmt.Sscanf(word, "%d.%d@%d", &id, &attempt, &worker)
	require.NoError(t, err, word)
	return id, attempt, worker
}

// reported returns the value in a report that a path of names and numbers leads to.
func reported(t *testing.T, r *Report, path string) string {
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(text, &v))
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err == nil {
				v = in[i]
				break
			}
			of := make([]any, len(in)) // the field of each element, or its element #N
			for i := range in {
				if fields, is := in[i].(map[string]any); is {
					of[i] = fields[name]
				} else {
					n, _ := strconv.Atoi(name[1:])
					of[i] = in[i].([]any)[n]
				}
			}
			v = of
		}
	}
	return fmt.Sprint(v)
}
