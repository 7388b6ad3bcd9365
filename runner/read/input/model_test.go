package input

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// row is a record that a writer has put into an input.
type row struct {
	text string
	cols []string
	size int   // 0 for a value
	file int   // number of its file
	rest int64 // the line after it
}

// writer makes inputs of random rows.
type writer struct {
	*rand.Rand
	e      example
	joined []string // separators of columns
	sound  *regexp.Regexp
	stop   place // of the row that ended a source early; 0 for none
}

func (w *writer) chance(percent int) bool { return w.IntN(100) < percent }

func pick[T any](w *writer, list ...T) T { return list[w.IntN(len(list))] }

// config chooses the format of the input and the use of its records.
func (w *writer) config() {
	e := &w.e
	e.SkipEmpty, e.Comments, e.Reads = w.chance(20), w.chance(20), w.chance(40)
	if w.chance(20) {
		e.EOF = "stop"
	}
	if w.chance(30) {
		e.Format.Header = 1 + w.IntN(2)
	} else if w.chance(30) {
		e.MaxRecord = 40
	}
	switch w.IntN(6) {
	case 0:
		e.Format.Kind = CSV
	case 1:
		e.Format = Format{Kind: JSON}
	case 2:
		e.Format.Delimiter = pick(w, "\x00", "ab", ",", ";;;")
	case 3:
		e.Format.Colsep, w.joined, w.sound = regexp.MustCompile(","), []string{","}, regexp.MustCompile("^[^,]*$")
	case 4:
		e.Format.Colsep, w.joined, w.sound = regexp.MustCompile(" +|;"), []string{" ", "   ", ";"}, regexp.MustCompile("^[^ ;]+$")
	}
	if w.chance(20) {
		e.Format.Skip = 1 + w.IntN(3)
	}
	e.Command = &expand.Config{Words: pick(w, []string{"r", "{}"}, []string{"r", "<{}>", "{-1}{%}", "{#}"}, []string{"r", "{1}", "-{1}"})}
	if e.Format.Kind != JSON && w.chance(40) {
		e.Command = &expand.Config{Words: []string{"echo", "{}"}, Batch: true}
		e.Limits = Limits{Records: w.IntN(6), Chars: pick(w, 0, 30+w.IntN(80), 100+w.IntN(200)), ArgMax: pick(w, 100+w.IntN(300), 1<<20), Workers: w.IntN(5)}
	}
	if w.chance(30) {
		e.share = func() func(*task.Task) bool {
			n := 0
			return func(tk *task.Task) bool { n++; return (n+len(fmt.Sprint(tk.Records)))%3 > 0 }
		}
	}
	e.Say = map[string]string{"key": "k-{1}", "tag": "{#}:{%}"}
}

// row returns a row of n columns and the text that separates it from the next row. end is "" for a value.
func (w *writer) row(n int, end string) (r row) {
	for range n {
		s := pick(w, "a", "b c", "", " ", "#x", "stop", "x\r", "é", "q\"", "l\nl", "\t", strings.Repeat("y", w.IntN(1+w.IntN(60))))
		if w.chance(1) {
			s = strings.Repeat("z", 1+w.IntN(2*bufferSize))
		}
		if w.sound != nil && !w.sound.MatchString(s) {
			s = "c"
		}
		r.cols = append(r.cols, s)
	}
	switch f := w.e.Format; {
	case f.Kind == CSV:
		var b strings.Builder
		c := csv.NewWriter(&b)
		_ = c.Write(r.cols)
		c.Flush()
		r.text = strings.TrimSuffix(b.String(), "\n")
	case f.Kind == JSON:
		b, _ := json.Marshal(map[string]string{"a": r.cols[0]})
		r.text, r.cols = string(b), []string{string(b)}
		if w.chance(20) {
			r.text, r.cols = pick(w, "", " \r", "{}"), []string{"{}"}
		}
	default:
		for i, c := range r.cols {
			if r.text += c; i < n-1 {
				r.text += pick(w, w.joined...)
			}
		}
		if strings.Index(r.text+end, end) != len(r.text) && end != "" {
			r.text = strings.Repeat("c", n)
			r.cols = []string{r.text}
			if n > 1 {
				r.cols = slices.Repeat([]string{"c"}, n)
				r.text = strings.Join(r.cols, w.joined[0])
			}
		}
	}
	return r
}

// source makes rows, and the texts of the files that contain them. With values, it returns the texts of the
// rows.
func (w *writer) source(files int, values bool) (rows []row, texts []string) {
	f, n, end := w.e.Format, 1, w.e.Format.Delimiter
	if end == "" {
		end = "\n"
	}
	if f.Kind == CSV || f.Colsep != nil {
		n += w.IntN(3)
	}
	header := w.row(n, end)
	for file := range files {
		text, line := "", int64(1)
		for i := range w.IntN(12) {
			r, cr := w.row(n, end), ""
			if f.Header > 0 && i == f.Skip && (file == 0 || w.chance(60)) {
				r = header
			}
			if f.Kind == CSV && !values && w.chance(20) {
				cr = "\r"
			}
			if r.file, r.size = file, len(r.text)+len(cr); i == 0 && w.chance(20) && !values && (f.Kind != Lines || f.Colsep != nil || f.Header > 0) {
				text = byteOrderMark
				r.size += len(text)
			}
			if values {
				r.size = 0
				texts = append(texts, r.text)
			}
			if line++; f.Kind == CSV {
				line += int64(strings.Count(r.text, "\n"))
			}
			r.rest = line
			text += r.text + cr + end
			rows = append(rows, r)
		}
		if last := len(rows) - 1; w.chance(30) && last >= 0 && rows[last].file == file && rows[last].text != "" {
			text = strings.TrimSuffix(text, end) // the last row needs no separator
		}
		if !values {
			texts = append(texts, text)
		}
	}
	return rows, texts
}

// read returns the rows that a Reader returns as records.
func (w *writer) read(rows []row) (records []row) {
	file, first, skip, names := -1, false, 0, []string(nil)
	for _, r := range rows {
		if r.file != file {
			file, first, skip = r.file, true, w.e.Format.Skip
		}
		if skip--; skip >= 0 {
			continue
		}
		blank := strings.TrimSpace(r.text) == ""
		switch {
		case w.e.MaxRecord > 0 && r.size > w.e.MaxRecord:
			r.cols = nil
		case w.e.EOF != "" && r.text == w.e.EOF:
			w.stop = place(r.file)<<placeLines | place(r.rest-1)
			return records
		case r.text == "" && (w.e.SkipEmpty || w.e.Format.Kind != Lines), blank && (w.e.Comments || w.e.Format.Kind == JSON),
			w.e.Comments && r.text[0] == '#':
			continue
		}
		if w.e.Format.Header > 0 && first && (names == nil || slices.Equal(r.cols, names)) {
			names, skip = r.cols, w.e.Format.Header-1
		} else {
			records = append(records, r)
		}
		first = false
	}
	return records
}

// product returns the records of two factors, which may be linked.
func product(a, b []row, linked bool) (rows []row) {
	for i := range a {
		for j := range b {
			if linked && i != j {
				continue
			}
			r := row{cols: slices.Concat(a[i].cols, b[j].cols)}
			if a[i].cols == nil || b[j].cols == nil {
				r.cols = nil
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// inputs makes the sources of the example, and returns the rows that are its records.
func (w *writer) inputs() []row {
	e := &w.e
	rows, texts := w.source(w.IntN(3)+1, false)
	at := w.IntN(len(texts))
	e.Stdin, e.Files = texts[at], slices.Clone(texts)
	if e.Files[at] = "-"; len(texts) == 1 && w.chance(50) {
		e.Files = nil
	}
	axes := [][]row{w.read(rows)}
	for range w.IntN(3) {
		values := w.chance(50)
		rows, texts := w.source(1, values)
		if e.Format.Kind == JSON || e.Files == nil || len(rows) == 0 {
			break
		}
		g := Group{Linked: w.chance(30), Values: texts}
		if !values {
			g.Values, g.File = nil, texts[0]
		}
		e.Groups = append(e.Groups, g)
		if last := len(axes) - 1; g.Linked {
			axes[last] = product(axes[last], w.read(rows), true)
		} else {
			axes = append(axes, w.read(rows))
		}
	}
	records := axes[0]
	for _, next := range axes[1:] {
		records = product(records, next, false)
	}
	if e.share == nil {
		return records
	}
	takes := e.share()
	return slices.DeleteFunc(records, func(r row) bool { return !takes(&task.Task{Records: [][]string{r.cols}}) })
}

// words returns the words of the command for records. The task has the given number.
func (w *writer) words(records []row, number int) (words []string) {
	for _, word := range w.e.Command.Words {
		if word == "{}" {
			for _, r := range records {
				words = append(words, r.cols...)
			}
			continue
		}
		cols := records[0].cols
		words = append(words, strings.NewReplacer("{}", strings.Join(cols, " "), "{1}", cols[0], "{-1}", cols[len(cols)-1],
			"{#}", fmt.Sprint(number), "{%}", "7").Replace(word))
	}
	return words
}

// fits reports whether records fit into one command if gone is counted, too.
func (w *writer) fits(records []row, gone string) bool {
	l, chars, words := w.e.Limits, 0, w.words(records, 0)
	for _, word := range words {
		chars += len(word) + 1
	}
	size := chars + pointerSize*len(words)
	return (l.Chars == 0 || chars+len(gone) <= l.Chars) && (l.ArgMax == 0 || size <= l.ArgMax) && len(slices.MaxFunc(words, byLength)) <= maxArgument
}

func byLength(a, b string) int { return len(a) - len(b) }

// stdin returns the standard input of the task of records.
func (w *writer) stdin(records []row) (text string) {
	if !w.e.Reads {
		return ""
	}
	for _, r := range records {
		text += cmp.Or(r.text, strings.Join(r.cols, " ")) + cmp.Or(w.e.Format.Delimiter, "\n")
	}
	return text
}

// cut returns the number of records in each command if each command takes as many as possible, but at
// most most; 0 means no limit.
func (w *writer) cut(records []row, most int) (cuts []int) {
	for len(records) > 0 {
		n := 1
		for n != most && n < len(records) && records[n].cols != nil && records[0].cols != nil && w.fits(records[:n+1], w.stdin(records[:n+1])) {
			n++
		}
		cuts, records = append(cuts, n), records[n:]
	}
	return cuts
}

// batches returns the number of records in each command.
func (w *writer) batches(records []row) (cuts []int) {
	l := w.e.Limits
	if !l.batches() {
		return w.cut(records, 1)
	}
	if l.Workers < 2 {
		return w.cut(records, l.Records)
	}
	shares := 0
	for len(records) > 0 {
		n := w.cut(records, l.Records)[0]
		if shares > 0 || len(records) <= n*l.Workers {
			shares = max(1, cmp.Or(shares, l.Workers+1)-1)
			n = min(n, w.cut(records, (len(records)+shares-1)/shares)[0])
		}
		cuts, records = append(cuts, n), records[n:]
	}
	return cuts
}

// want returns the expected description of each task.
func (w *writer) want(records []row) (list []string) {
	for _, n := range w.batches(records) {
		of := records[:n]
		if records = records[n:]; of[0].cols == nil || !w.fits(of, "") {
			list = append(list, "!")
			continue
		}
		var first []string
		for _, r := range of {
			if first == nil || len(r.cols) > 1 { // otherwise {1} is the first record
				first = append(first, r.cols[0])
			}
		}
		number := len(list) + 1
		text := fmt.Sprintf("%s key=k-%s tag=%d:7", strings.Join(w.words(of, number), "¦"), strings.Join(first, " "), number)
		if in := w.stdin(of); in != "" {
			text += " stdin=" + in
		}
		list = append(list, text)
	}
	return list
}

// TestModel compares the tasks of random inputs with the tasks that the writer of the inputs
// expects. It also checks Count and After.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	for round := range crewtest.Rounds(200) {
		t.Run(fmt.Sprint(round), func(t *testing.T) { testModel(t, dir, crewtest.Rand(t, round)) })
	}
}

func testModel(t *testing.T, dir string, r *rand.Rand) {
	w := writer{Rand: r}
	w.config()
	records := w.inputs()
	want := w.want(records)
	input := &watched{pick(&w, pieces...)(strings.NewReader(w.e.Stdin)), t, false}
	src, err := w.e.open(t, input, dir)
	require.NoError(t, err)
	got, _ := all(t, src, input)
	for i := range got {
		if got[i][0] == '!' {
			got[i] = "!"
		}
	}
	for i := range max(len(want), len(got)) {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("task %d is\n%.300q instead of\n%.300q:\n%.1000s", i+1, got[i:min(len(got), i+1)], want[i:min(len(want), i+1)], fmt.Sprintf("%+v %+v", w.e, w.e.Command))
		}
	}
	if w.e.Groups == nil && (w.e.Format.Kind != CSV || w.e.MaxRecord == 0) {
		for i, n := range w.batches(records) {
			file, line := src.After(uint64(i + 1))
			at, last := place(file)<<placeLines|place(line), records[n-1]
			behind, next := place(last.file)<<placeLines|place(last.rest), cmp.Or(w.stop, math.MaxInt64)
			if records = records[n:]; len(records) > 0 {
				next = place(records[0].file)<<placeLines | place(records[0].rest-1)
			}
			require.True(t, behind <= at && at <= next && (behind == at || w.e.Limits.batches()), "task %d ends at %x: %+v", i+1, at, w.e)
		}
	}
	in := w.e.config(t, strings.NewReader(w.e.Stdin), dir)
	if n, ok := Count(in, src.cfg, new(atomic.Bool)); ok || err == nil {
		require.EqualValues(t, len(want), n, "%+v", w.e)
	}
}
