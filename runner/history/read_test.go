package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/sink"
	"crew/runner/task"
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
func briefs(list *[]string) func(*Line) error {
	return func(l *Line) error {
		*list = append(*list, brief(l))
		return nil
	}
}

// told returns what a text tells, in few words.
func told(t *testing.T, text string) string {
	t.Helper()
	var list []string
	require.NoError(t, ReadStream("x.txt", iotest.HalfReader(strings.NewReader(text)), briefs(&list)))
	return strings.Join(list, "\n")
}

// row returns a row of a joblog.
func row(seq int, start, took float64, rest ...string) string {
	end := "0\t0\ttrue"
	if len(rest) > 0 {
		end = rest[0]
	}
	return fmt.Sprintf("%d\t:\t%.3f\t%10.3f\t0\t0\t%s\n", seq, start, took, end)
}

const header = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

func TestRowsOfAJoblog(t *testing.T) {
	require.Equal(t, "", told(t, ""))
	require.Equal(t, "", told(t, header))
	require.Equal(t, `began
finished 1 ok
finished 2 exit
finished 3 signal
finished 4 timeout
finished 5 skipped
finished 6 not-run
damaged x.txt: 3 damaged lines left out, first line 8, which is no whole row of a joblog`, told(t, header+row(1, 100, 1)+row(2, 100, 1, "3\t0\tfalse")+row(3, 101, 1, "0\t9\tx")+
		row(4, 101, 1, "-1\t15\tx")+row(5, 0, 0)+row(6, 0, 0, "1\t0\tx")+
		"7\t:\t1.000\t  x\t0\t0\t0\t0\tbad\nnonsense\n8\tcut"))

	long := strings.Repeat("x", maxLine)
	require.Equal(t, `began
finished 2 ok
damaged x.txt: 2 damaged lines left out, first line 1, which is no whole row of a joblog`,
		told(t, row(1, 1, 1, "0\t0\t"+long)+`{"task":3,"outcome":"ok","stdout":"`+long+"\"}\n"+row(2, 1, 1)))

	var got Line
	require.NoError(t, ReadStream("", strings.NewReader("7\tfar\t1700000000.125\t      1.500\t2\t3\t4\t0\techo a\\tb\\\\ \\x1b\n"), func(l *Line) error {
		got = *l
		return nil
	}))
	require.Equal(t, `,"task":7,"command":"echo a\tb\\ \u001b","outcome":"exit","exit":4,"host":"far",`+
		`"start":"2023-11-14T22:13:20.125Z","duration":1.5`, string(inUTC(got.Facts).Append(nil)))
	require.Equal(t, time.Unix(1700000001, 625e6), got.At)
}

func inUTC(f task.Facts) *task.Facts {
	f.Start = f.Start.UTC()
	return &f
}

// What is no escape of crew is text of parallel.
func TestUnescaped(t *testing.T) {
	for text, want := range map[string]string{
		`a\\b\n`: "a\\b\n", `\x`: `\x`, `\x4`: `\x4`, `\x41`: "A", `a\n\f`: `a\n\f`, `\`: `\`, "": "", `\xzz\t`: `\xzz\t`,
	} {
		require.Equal(t, want, unescaped(text), text)
	}
}

// A number that comes again begins a run, and so does another mark; rows of runs may come in turns.
func TestRunsOfAJoblog(t *testing.T) {
	marked := func(n int, row string) string { return strings.Replace(row, "\t  ", "\t  "+strings.Repeat(" ", n), 1) }
	for name, c := range map[string]struct{ text, want string }{
		"again":         {row(1, 10, 1) + row(2, 11, 1) + row(1, 20, 1) + row(2, 21, 1), "|12|12"},
		"header":        {row(1, 10, 1) + header + row(2, 20, 1), "|1|2"},
		"thrice":        {strings.Repeat(row(1, 10, 1), 3), "|1|1|1"},
		"without times": {row(1, 0, 0) + row(2, 0, 0) + row(1, 0, 0), "|12|1"},
		"marks":         {marked(1, row(1, 1, 1)) + marked(2, row(2, 1, 1)) + marked(1, row(3, 1, 1)) + row(4, 1, 1) + marked(2, row(5, 1, 1)) + marked(2, row(2, 1, 1)), "|1|2<3|4<5|2"},
	} {
		t.Run(name, func(t *testing.T) {
			got, runs := "", 0
			require.NoError(t, ReadStream("", strings.NewReader(c.text), func(l *Line) error {
				if l.Name == Began {
					runs++
					got += "|"
					return nil
				}
				got += strings.Repeat("<", runs-l.Run) + fmt.Sprint(l.Task)
				return nil
			}))
			require.Equal(t, c.want, got)
		})
	}
}

// Facts are read as they are written.
func TestFacts(t *testing.T) {
	code := 3
	f := task.Facts{
		Task: 1 << 63, Key: "k\xff", Command: "a\n\"\u00e9\U0001f600\x7f", Outcome: task.Exit, Exit: &code, Signal: 9, Error: "e",
		Attempt: 2, Worker: 3, Host: "h", Units: task.Holding{{Name: "gpu", Held: []string{"0", "1"}}}, PID: 4,
		Start: time.Unix(1e9, 5).UTC(), Duration: 6, User: 7, System: 8, MaxRSS: 9, Leaked: true,
	}
	for i := range reflect.TypeFor[task.Facts]().NumField() {
		require.False(t, reflect.ValueOf(f).Field(i).IsZero(), "set all fields")
	}
	text, err := json.Marshal(f)
	require.NoError(t, err)
	var got task.Facts
	require.NoError(t, ReadStream("", bytes.NewReader(text), func(l *Line) error {
		got = l.Facts
		return nil
	}))
	require.Equal(t, f, got)
}

func TestResultsOfJSON(t *testing.T) {
	long := strings.Repeat("x", 3*tailBytes)
	require.Equal(t, `began
retried 1 exit "e1"
retried 1 timeout attempt 2 "o2"
finished 1 exit attempt 3 "é\xff"
finished 2 ok
finished 3 exit "`+long[:tailBytes-4]+`tail"
began
finished 2 not-run
damaged x.txt: 5 damaged lines left out, first line 5, which is no object of crew's`, told(t, `
{"task":1,"key":"k","command":"c","outcome":"exit","exit":1,"attempt":3,"args":[["a","]}"]],"fields":{"a":{"b":"\"}"}},"attempts":[{"outcome":"exit","attempt":1,"stdout":"o1","stderr":"e1"},{"outcome":"timeout","attempt":2,"stdout":"o2","stderr":"  \n"}],"omitted":7,"stdout":"x","stderr":{"base64":"w6n/"}}
 { "task" : 2 , "outcome" : "ok" , "stdout" : "\u00e9\ud83d\ude00" , "stderr" : "" , "more" : null }
{"task":3,"outcome":"exit","exit":1,"stdout":"`+long+`tail","stderr":""}
{"task":4,"outcome":"exit","stdout":"
{"task":5,"outcome":"strange"}
{"task":6,"outcome":"ok",}
{"task":7}
{"task":8,"outcome":"ok"} x
{"task":2,"outcome":"not-run","args":[]}
{"task":9,"outcome":"ok","std`))
	require.Equal(t, "began\nfinished 1 ok", told(t, `{"task":1,"outcome":"ok"}`))
	require.Equal(t, "began\nfinished 1 ok\nbegan\nbegan\nfinished 2 ok", told(t, `{"task":1,"outcome":"ok"}
{"v":2,"event":"watching"}
{"task":2,"outcome":"ok"}`), "another form")

	var wait []task.Seconds
	require.NoError(t, ReadStream("", strings.NewReader(`{"task":1,"command":"c","key":"k","outcome":"ok","start":"2026-01-02T03:04:10Z","duration":1,`+
		`"attempts":[{"outcome":"exit","start":"2026-01-02T03:04:05Z","duration":2}]}`), func(l *Line) error {
		if l.Name != Began {
			require.Equal(t, "c k 1", fmt.Sprint(l.Command, " ", l.Key, " ", l.Task))
			wait = append(wait, l.Wait)
		}
		return nil
	}))
	require.Equal(t, []task.Seconds{3e9, 0}, wait)
}

func TestStreamOfWatch(t *testing.T) {
	run := `{"v":2,"event":"watching","at":"2026-01-02T03:04:05Z","hello":{"pid":1,"command":"crew x","state":"running","total":null}}
{"v":2,"event":"admitted","at":"2026-01-02T03:04:05Z","task":7,"command":"x"}
{"v":2,"event":"started","at":"2026-01-02T03:04:06Z","task":7,"command":"x","attempt":1,"worker":1}
{"v":2,"event":"blocked","at":"2026-01-02T03:04:06Z","blocking":{"by":"memory","text":"too little","tasks":1}}
{"v":2,"task":7,"stream":"stdout","data":"b3V0"}
{"v":2,"task":7,"stream":"stderr","data":"ZXJy"}
{"v":2,"task":7,"stream":"stderr","data":"b3I="}
{"v":2,"event":"retried","at":"2026-01-02T03:04:07Z","task":7,"outcome":"exit","exit":1,"attempt":1,"worker":1}
{"v":2,"task":7,"stream":"stdout","data":"b3V0"}
{"v":2,"event":"finished","at":"2026-01-02T03:04:08Z","task":7,"outcome":"exit","exit":1,"attempt":2,"worker":1}
{"v":2,"end":true,"run":{"at":"2026-01-02T03:04:09Z","state":"done"}}
`
	want := `began crew x
admitted 7
started 7
blocked
retried 7 exit "error"
finished 7 exit attempt 2 "out"
over`
	require.Equal(t, want+"\n"+want, told(t, run+run))
	_, after, _ := strings.Cut(run, "\n")
	require.Equal(t, strings.Replace(want, " crew x", "", 1), told(t, after), "begun in the middle")
	require.NoError(t, ReadStream("", strings.NewReader(run), func(l *Line) error {
		switch l.Name {
		case "started":
			require.Equal(t, l.At, l.Start)
		case "blocked":
			require.Equal(t, task.ByMemory, l.Blocking.By)
		}
		return nil
	}))
}

func TestWhatIsNoHistory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.txt")
	for _, text := range []string{"a\nb\n", "{\n", `{"task":1}` + "\n", strings.Repeat("x", 1<<20) + "\n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		err := Read(path, nil, nil)
		require.EqualError(t, err, "read "+path+": it is no joblog, no output of --json, and no directory of --state")
	}
	require.EqualError(t, Read(dir, nil, nil), "read "+dir+": it is no joblog, no output of --json, and no directory of --state")
	require.EqualError(t, Read(path+"y", nil, nil), "read "+path+"y: no such file or directory")

	broken := errors.New("broken")
	for _, text := range []string{row(1, 1, 1), row(1, 1, 1) + row(2, 1, 1), row(1, 1, 1) + row(2, 5, 1)} {
		n := 0
		require.Equal(t, broken, Read("-", strings.NewReader(text), func(*Line) error {
			if n++; n == 2 {
				return broken
			}
			return nil
		}))
	}
	require.EqualError(t, ReadStream("x", iotest.ErrReader(broken), nil), "read x: broken")
}

// A joblog is read as the sink writes it.
func TestJoblogOfTheSink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	at := time.Unix(1700000000, 0)
	odd := []string{"a", "tab\there", "line\nline", `back\slash\n\\`, "\r", "", "\xff \u00e9", "\x1b[2J\x9b", `\x1b`, `\f`}
	var logs [2]*sink.Joblog
	for at := range logs {
		var err error
		logs[at], err = sink.OpenJoblog(path, sink.JoblogShared, nil)
		require.NoError(t, err)
	}
	for i, c := range odd {
		for _, j := range logs {
			tk := &task.Task{ID: uint64(i + 1), Argv: []string{"sh", "-c", c}, Shell: true}
			r := &task.Result{Task: tk, Outcome: task.Exit, Code: i + 1, Start: at, End: at.Add(1234 * time.Millisecond)}
			require.NoError(t, j.Consume([]task.Event{{Kind: task.Finished, Task: tk, Result: r}}))
		}
	}
	var tasks [2]int
	runs := 0
	require.NoError(t, Read(path, nil, func(l *Line) error {
		if l.Name == Began {
			runs++
			require.True(t, at.Equal(l.At))
			return nil
		}
		i := tasks[l.Run-1]
		require.EqualValues(t, i+1, l.Task)
		require.EqualValues(t, odd[i], l.Command)
		require.Equal(t, i+1, *l.Exit)
		require.EqualValues(t, 1234*time.Millisecond, l.Duration)
		tasks[l.Run-1]++
		return nil
	}))
	require.Equal(t, [2]int{len(odd), len(odd)}, tasks)
	require.Equal(t, 2, runs)
}
