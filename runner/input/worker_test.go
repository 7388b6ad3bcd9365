package input

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

func TestRecordsForWorkers(t *testing.T) {
	comma := regexp.MustCompile(",")
	two := []Group{{Values: []string{"a b", "\n"}}, {Values: []string{"x"}}}
	for _, c := range []struct {
		name  string
		in    Config
		line  string // what each task reads, or its error after a !
		asNUL string
		json  string
	}{
		{
			"lines", Config{Stdin: strings.NewReader("a b\n\n\x00\xff\n")}, `["a b" "" "\x00\xff"]`,
			`["a b" "" "!json"]`,
			"[`\"args\":[\"a b\"],\"fields\":{}` `\"args\":[\"\"],\"fields\":{}` `\"args\":[{\"base64\":\"AP8=\"}],\"fields\":{}`]",
		},
		{
			"columns", Config{Stdin: strings.NewReader("n,n,\xff\n1,2,3,4\n5"), Format: Format{Colsep: comma, Header: true}}, `["1,2,3,4" "5"]`,
			`["1,2,3,4" "5"]`,
			"[`\"args\":[\"1\",\"2\",\"3\",\"4\"],\"fields\":{\"n\":\"1\",\"\ufffd\":\"3\"}` `\"args\":[\"5\"],\"fields\":{\"n\":\"5\"}`]",
		},
		{
			"csv", Config{Stdin: strings.NewReader("a,\"x\ny\"\r\n"), Format: Format{Kind: CSV}}, `["!nul or json"]`,
			`["a,\"x\ny\""]`,
			"[`\"args\":[\"a\",\"x\\ny\"],\"fields\":{}`]",
		},
		{
			"product", Config{Groups: two}, `["a b x" "!nul or json"]`,
			`["a b x" "\n x"]`,
			"[`\"args\":[\"a b\",\"x\"],\"fields\":{}` `\"args\":[\"\\n\",\"x\"],\"fields\":{}`]",
		},
		{
			"objects", Config{Groups: []Group{{Values: []string{` {"a":1} `, "{\n}"}}}, Format: Format{Kind: JSON}}, `[" {\"a\":1} " "!nul or json"]`,
			`[" {\"a\":1} " "{\n}"]`,
			"[`\"args\":[\" {\\\"a\\\":1} \"],\"fields\":{\"a\":1}` `\"args\":[\"{\\n}\"],\"fields\":{ }`]",
		},
	} {
		for protocol, want := range map[task.Protocol]string{task.LineProtocol: c.line, task.NULProtocol: c.asNUL, task.JSONProtocol: c.json} {
			in := c.in
			if r, ok := in.Stdin.(*strings.Reader); ok {
				_, _ = r.Seek(0, io.SeekStart)
			}
			var got []string
			cfg := TasksConfig{Template: template(t, expand.Config{Words: []string{"worker {%}"}}), Protocol: protocol, Texts: Texts{Tag: textOf(t, "{%}")}}
			for _, tk := range tasks(t, in, cfg) {
				require.Equal(t, []string{"worker", "3"}, tk.ArgvOn(3, "", nil))
				require.Equal(t, "3", tk.TagOn(3, "", nil))
				require.Equal(t, protocol, tk.Protocol)
				text := string(tk.Stdin)
				if tk.Err != nil {
					_, hint, _ := strings.Cut(tk.Err.Error(), "--worker-protocol ")
					text = "!" + hint
				}
				got = append(got, text)
			}
			format := "%q"
			if protocol == task.JSONProtocol {
				format = "%#q"
			}
			require.Equal(t, want, fmt.Sprintf(format, got), "%s %d", c.name, protocol)
		}
	}
}

// All tasks of a worker share its command, and none has a copy of its record.
func TestRecordsForWorkersAreCheap(t *testing.T) {
	const records = 1000
	r, err := Open(Config{Stdin: short(records)})
	require.NoError(t, err)
	src, number := NewTasks(r, TasksConfig{Template: template(t, expand.Config{Words: []string{"cat"}}), Protocol: task.LineProtocol}), count()
	per := testing.AllocsPerRun(records-1, func() {
		tk, err := src.Next(number)
		if err != nil || string(tk.Stdin) != "1234567" {
			t.Error(tk, err)
		}
	})
	require.Less(t, per, 1.0)
}

// watched fails the test if it is read while it must not be.
type watched struct {
	t      *testing.T
	r      io.Reader
	closed bool
}

func (w *watched) Read(b []byte) (int, error) {
	require.False(w.t, w.closed, "Next would have blocked")
	return w.r.Read(b)
}

func TestBuffered(t *testing.T) {
	line := func(f func(*Config)) Config {
		c := Config{}
		f(&c)
		return c
	}
	for _, c := range []struct {
		name  string
		in    Config
		text  string
		known int // how many tasks are known to come without a read, if the text arrives at once
	}{
		{"lines", Config{}, "a\n\nb\n#c", 2},
		{"empty", Config{}, "", 0},
		{"without empty ones", line(func(c *Config) { c.SkipEmpty = true }), "\n\na\nb\n\nc\n\n", 1},
		{"comments", line(func(c *Config) { c.Comments = true }), "#\na\nb\n# b\nc\nd\n  \ne\n \n", 2},
		{"objects", line(func(c *Config) { c.Format.Kind = JSON }), "\ufeff\n{}\n \n{}\n{}\n", 1},
		{"csv", line(func(c *Config) { c.Format.Kind = CSV }), "\r\na,\"\n\"\r\nb\n\r\n", 1},
		{"header", line(func(c *Config) { c.Format.Header = true }), "h\na\nb\n", 2},
		{"long separator", line(func(c *Config) { c.Format.Delimiter = "--" }), "a-b--c--d-", 1},
		{"too long", line(func(c *Config) { c.MaxRecord = 2 }), "aaaa\nb\ncccc\nd", 2},
	} {
		for _, p := range pieces {
			w := &watched{t: t, r: p.of(strings.NewReader(c.text))}
			c.in.Stdin = w
			r, err := Open(c.in)
			require.NoError(t, err)
			src, number := NewTasks(r, TasksConfig{Template: template(t, expand.Config{Words: []string{"cat"}})}), count()
			known := 0
			for err == nil {
				if w.closed = src.Buffered(); w.closed {
					known++
				}
				_, err = src.Next(number)
				w.closed = false
			}
			require.Equal(t, io.EOF, err)
			require.False(t, src.Buffered())
			if p.name == "at once" {
				require.Equal(t, c.known, known, c.name)
			}
		}
	}
	values := Config{Groups: []Group{{Values: []string{"a", "b"}}}}
	r, err := Open(values)
	require.NoError(t, err)
	cfg := TasksConfig{Template: template(t, expand.Config{Words: []string{"cat"}})}
	require.True(t, NewTasks(r, cfg).Buffered())
	cfg.Share = func(*task.Task) bool { return false }
	require.False(t, NewTasks(r, cfg).Buffered())
}

// short returns n records of eight bytes.
func short(n int) io.Reader { return io.LimitReader(repeat("1234567\n"), 8*int64(n)) }
