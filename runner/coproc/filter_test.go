package coproc

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// blocks returns a crowd of filters, whose slots hold two blocks as in a run.
func blocks(t *testing.T, slots int, argv ...string) *crowd {
	c := newCrowd(t, Config{}, argv...)
	c.protocol, c.slots, c.window = task.FilterProtocol, slots, 2
	return c
}

func (c *crowd) addBlock(b *task.Block) {
	c.add("")
	c.queue[len(c.queue)-1].Task.Block = b
}

func TestFiltersGetEveryByteAndOneHeader(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	w := bufio.NewWriter(file)
	for i := range 100_000 {
		fmt.Fprintf(w, "line %7d\n", i)
	}
	require.NoError(t, w.Flush())
	const line, lines = 13, 5000
	c := blocks(t, 2, "cat")
	for i := range int64(20) {
		c.addBlock(&task.Block{Head: []byte("head\n"), File: file, Off: i * lines * line, Len: lines * line})
		c.addBlock(&task.Block{Head: []byte("head\n"), Text: []byte(fmt.Sprintf("text %d\n", i))})
	}
	c.addBlock(&task.Block{Head: []byte("head\n")})
	c.run()
	var all strings.Builder
	outputs := 0
	for id, r := range c.results {
		require.Equal(t, task.OK, r.Outcome, "%d: %v", id, r.Err)
		if r.Stdout != nil {
			outputs++
			var b strings.Builder
			_, err := r.Stdout.WriteTo(&b)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(b.String(), "head\n"))
			require.Equal(t, 1, strings.Count(b.String(), "head\n"))
			all.WriteString(b.String())
		}
	}
	require.LessOrEqual(t, outputs, 2)
	require.Equal(t, 100_000, strings.Count(all.String(), "line"))
	require.Equal(t, 20, strings.Count(all.String(), "text"))
	for i := range 100_000 / 97 {
		require.Contains(t, all.String(), fmt.Sprintf("line %7d\n", i*97))
	}
}

func TestTheLastBlockEndsAsItsFilterDoes(t *testing.T) {
	t.Parallel()
	c := blocks(t, 1, "sh", "-c", "wc -l; echo done >&2; exit 3")
	for range 5 {
		c.addBlock(&task.Block{Text: []byte("a\nb\n")})
	}
	c.run()
	for id := uint64(1); id < 5; id++ {
		require.Equal(t, "ok||", c.show(t, id))
	}
	require.Equal(t, "exit 3|10\n|done\n", c.show(t, 5))
}

func TestAFilterThatEndsEarly(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 300_000) + "\n"
	c := blocks(t, 1, "sh", "-c", "read -r x; echo $x; exit 4")
	c.addBlock(&task.Block{Text: []byte("a\n" + big)})
	c.addBlock(&task.Block{Text: []byte("b\n" + big)})
	c.addBlock(&task.Block{Text: []byte("c\n")})
	c.run()
	require.Equal(t, "exit 4|a\n|", c.show(t, 1))
	require.Equal(t, "exit 4|b\n|", c.show(t, 2))
	require.Equal(t, "exit 4|c\n|", c.show(t, 3))
	require.Empty(t, c.back)
}

func TestAFileThatShrinks(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	_, err = file.WriteString("short")
	require.NoError(t, err)
	c := blocks(t, 1, "cat")
	c.addBlock(&task.Block{File: file, Len: 100})
	c.run()
	require.Contains(t, c.show(t, 1), "the input has become shorter than block 1")
	require.False(t, c.results[1].BadCommand)
}
