package task

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// text is a line of the test file: a text that people write or see. Do selects the function.
type text struct {
	Do       string
	Task     Task
	Block    string
	Blocking Blocking
	None     bool
	Result   Result
	In       string
	N        int
	Want     string
}

// texts are the functions by name.
var texts = map[string]func(c *text) any{
	"label":      func(c *text) any { return c.Task.Label(c.N) },
	"beside":     func(c *text) any { return c.Task.LabelBeside(c.In) },
	"line":       func(c *text) any { return c.Task.CommandLine(c.Task.Argv) },
	"short":      func(c *text) any { return c.Task.ShortCommandLine(c.Task.Argv, c.N) },
	"visible":    func(c *text) any { return c.Task.VisibleLine(c.Task.Argv) },
	"blocking":   func(c *text) any { return c.Blocking.Text(time.Unix(100, 0)) },
	"verdict":    func(c *text) any { return c.Result.Verdict() },
	"shorten":    func(c *text) any { return Shorten(c.In, c.N) },
	"uncoloured": func(c *text) any { return string(Uncoloured([]byte(c.In))) },
	"host":       func(c *text) any { return HostName(c.In) },
	"cap":        func(c *text) any { return IsCapName(c.In) },
	"duration":   func(c *text) any { return either(ParseDuration(c.In)) },
	"size":       func(c *text) any { return either(ParseSize(c.In)) },
	"bytes":      func(c *text) any { return Size(int64(c.N)) },
	"nearest":    func(c *text) any { return Nearest(c.In, []string{"show", "shot", "list"}) },
	"needs":      func(c *text) any { return either(ParseNeeds(c.In)) },
	"message": func(c *text) any {
		p := c.Task.Protocol
		return string(p.End(append(p.Begin(nil, 7), `"args":[]`...), 2, []Units{{"gpu", []string{"0"}}}, nil))
	},
	"json": func(c *text) any {
		var b Bytes
		err := b.UnmarshalJSON([]byte(c.In))
		return either(b, err)
	},
	"lacks": func(c *text) any {
		needs, _ := ParseNeeds(c.In)
		return either("", CheckNeeds([]Cap{{"db", []string{"0", "1"}}, {"gpu", []string{"a"}}}, needs, false))
	},
}

// either returns the parsed value, or the error.
func either[T any](got T, err error) string {
	if err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	return fmt.Sprint(got)
}

func TestTexts(t *testing.T) {
	crewtest.Examples(t, "testdata/texts.txt", func(t *testing.T, c text) {
		if c.Block != "" {
			c.Task.Block = &Block{Name: c.Block, Off: 10, Len: 5}
		}
		c.Blocking.None = c.None
		c.Result.Err = errors.New("it died")
		c.Result.Start, c.Result.End = time.Unix(1, 0), time.Unix(3, 0)
		require.Equal(t, c.Want, fmt.Sprint(texts[c.Do](&c)))
	})
}

// Cutting takes time for what is shown, however long the text is, and keeps characters whole.
func TestCut(t *testing.T) {
	for in, want := range map[string]string{"abc": "abc", "": "", "世界": "世…", "ae\u0301b\u0301": "ae\u0301b\u0301", strings.Repeat("x", 1<<20): "xx…"} {
		require.Equal(t, want, Cut(in, 3))
	}
}
