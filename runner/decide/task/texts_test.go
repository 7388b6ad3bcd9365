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

// got returns what the function makes of the line.
func (c *text) got() any {
	switch c.Do {
	case "label":
		return c.Task.Label(c.N)
	case "beside":
		return c.Task.LabelBeside(c.In)
	case "line":
		return c.Task.CommandLine(c.Task.Argv)
	case "short":
		return c.Task.ShortCommandLine(c.Task.Argv, c.N)
	case "visible":
		return c.Task.VisibleLine(c.Task.Argv)
	case "blocking":
		return c.Blocking.Text(time.Unix(100, 0))
	case "verdict":
		return c.Result.Verdict()
	case "shorten":
		return Shorten(c.In, c.N)
	case "uncoloured":
		return string(Uncoloured([]byte(c.In)))
	case "host":
		return HostName(c.In)
	case "cap":
		return IsCapName(c.In)
	case "duration":
		return either(ParseDuration(c.In))
	case "size":
		return either(ParseSize(c.In))
	case "bytes":
		return Size(int64(c.N))
	case "nearest":
		return Nearest(c.In, []string{"show", "shot", "list"})
	case "needs":
		return either(ParseNeeds(c.In))
	case "message":
		p := c.Task.Protocol
		return string(p.End(append(p.Begin(nil, 7), `"args":[]`...), 2, []Units{{"gpu", []string{"0"}}}, nil))
	case "json":
		var b Bytes
		err := b.UnmarshalJSON([]byte(c.In))
		return either(b, err)
	case "lacks":
		needs, _ := ParseNeeds(c.In)
		return either("", CheckNeeds([]Cap{{"db", []string{"0", "1"}}, {"gpu", []string{"a"}}}, needs, false))
	}
	panic(c.Do)
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
		require.Equal(t, c.Want, fmt.Sprint(c.got()))
	})
}

// Cutting takes time for what is shown, however long the text is, and keeps characters whole.
func TestCut(t *testing.T) {
	for in, want := range map[string]string{"abc": "abc", "": "", "世界": "世…", "ae\u0301b\u0301": "ae\u0301b\u0301", strings.Repeat("x", 1<<20): "xx…"} {
		require.Equal(t, want, Cut(in, 3))
	}
}
