package input

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// example is an input, a configuration, and the expected tasks.
type example struct {
	Config    // its Files and Groups hold the texts of files
	Stdin     string
	Command   *expand.Config // nil for `r {}`
	Objects   bool
	Limits    Limits
	Protocol  task.Protocol
	Reads     bool              // tasks read their records
	Say       map[string]string // templates by name
	Even      string
	Makes     []string
	Temp, Out bool     // of Makes
	Want      []string // expected result of show for each task
	Known     int      // number of tasks for which Buffered is true if the input arrives at once

	share func() func(*task.Task) bool
}

var said = strings.Fields("key tag cost stdin env dir timeout id after priority weight needs makes")

// show returns the words of a task and its other properties.
func show(tk *task.Task) string {
	text := strings.Join(tk.ExecOn(7, "", nil), "¦")
	if tk.Err != nil {
		text = strings.TrimSuffix("!"+tk.Err.Error()+"¦"+text, "¦")
	}
	terms, makes := tk.Terms(), []string(nil)
	if tk.Makes != nil {
		for _, m := range tk.Makes.Targets {
			makes = append(makes, fmt.Sprint(m.Path, " ", m.Temp))
		}
	}
	for i, v := range []any{
		tk.Key, tk.TagOn(7, "", nil), tk.Cost, string(tk.Stdin), tk.Env, tk.Dir, tk.Timeout,
		terms.Name, terms.After, terms.Priority, terms.Weight, terms.Needs, makes,
	} {
		if s := fmt.Sprint(v); s != "" && s != "0" && s != "0s" && s != "[]" {
			text += fmt.Sprintf(" %s=%s", said[i], s)
		}
	}
	return text
}

var caps = []task.Cap{{Name: "db", Units: []string{"0", "1"}}, {Name: "gpu", Units: []string{"a"}}}

// config writes the files of the example to dir, and returns the configuration of the Reader.
func (e example) config(t testing.TB, rd io.Reader, dir string) Config {
	in := e.Config
	in.Stdin, in.Files, in.Groups = rd, nil, nil
	file := func(text string) string {
		if text == "-" {
			return text
		}
		path := filepath.Join(dir, fmt.Sprint(len(in.Files), len(in.Groups)))
		crewtest.WriteFile(t, path, text, 0o600)
		return path
	}
	for _, text := range e.Files {
		in.Files = append(in.Files, file(text))
	}
	for _, g := range e.Groups {
		if g.File != "" {
			g.File = file(g.File)
		}
		in.Groups = append(in.Groups, g)
	}
	return in
}

// open returns the tasks of the example.
func (e example) open(t testing.TB, rd io.Reader, dir string) (*Tasks, error) {
	cfg := TasksConfig{Objects: e.Objects, Limits: e.Limits, Stdin: e.Reads, Protocol: e.Protocol, Share: e.share}
	cfg.Caps, cfg.SameWeight, cfg.Files.Stdout = caps, e.Even, e.Out
	for name, s := range e.Say {
		if i := slices.Index(TermNames[:], name); i >= 0 {
			cfg.Templates[i] = textOf(t, s)
		} else {
			cfg.Tag = textOf(t, s)
		}
	}
	for _, s := range e.Makes {
		cfg.Files.Makes = append(cfg.Files.Makes, Made{textOf(t, s), e.Temp})
	}
	in := e.config(t, rd, dir)
	if err := in.Validate(); err != nil {
		return nil, err
	}
	r, err := Open(in)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = r.Close() })
	command := expand.Config{Words: []string{"r", "{}"}}
	if e.Command != nil {
		command = *e.Command
	}
	command.Names, command.Fields = r.Names(), e.Format.Kind == JSON
	if cfg.Template, err = expand.New(command); err != nil {
		return nil, err
	}
	return NewTasks(r, cfg), nil
}

// pieces are ways in which the same bytes can arrive.
var pieces = []func(io.Reader) io.Reader{
	func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader,
}

// watched fails the test if it is read while it must not be.
type watched struct {
	io.Reader
	t      testing.TB
	closed bool
}

func (w *watched) Read(b []byte) (int, error) {
	require.False(w.t, w.closed, "Next would have blocked")
	return w.Reader.Read(b)
}

// all returns the description of each task of src, which reads w, and the number of tasks for which
// Buffered was true.
func all(t testing.TB, src *Tasks, w *watched) (list []string, known int) {
	list = []string{}
	for {
		if w.closed = src.Buffered(); w.closed {
			known++
		}
		tk, err := src.Next(func() uint64 { return uint64(len(list) + 1) })
		if w.closed = false; err == io.EOF {
			return list, known
		} else if err != nil {
			return append(list, err.Error()), known
		}
		require.EqualValues(t, len(list)+1, tk.ID)
		list = append(list, show(tk))
	}
}

// TestWords checks that the tasks of an input do not depend on how it arrives.
func TestWords(t *testing.T) {
	crewtest.Examples(t, "testdata/words.txt", func(t *testing.T, e example) {
		dir := t.TempDir()
		for i, of := range pieces {
			w := &watched{of(strings.NewReader(e.Stdin)), t, false}
			src, err := e.open(t, w, dir)
			if err != nil {
				require.Equal(t, e.Want, []string{err.Error()})
				return
			}
			list, known := all(t, src, w)
			for i := range list {
				list[i] = strings.ReplaceAll(list[i], dir+"/", "")
			}
			require.Equal(t, e.Want, list)
			if i == 0 && e.Known > 0 {
				require.Equal(t, e.Known, known)
			}
		}
	})
}

func textOf(t testing.TB, s string) *expand.Text {
	t.Helper()
	text, err := expand.NewText(s, expand.Config{Columns: expand.Columns{Fields: true}})
	require.NoError(t, err)
	return text
}
