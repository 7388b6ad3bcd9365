package coproc

import (
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
