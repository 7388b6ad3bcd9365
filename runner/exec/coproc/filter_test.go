package coproc

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

func TestAFileThatShrinks(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/workers.txt")
	require.NoError(t, err)
	defer file.Close()
	c := newFixture(t, Config{}, "cat")
	c.protocol, c.window = task.FilterProtocol, 2
	c.add("")
	c.queue[0].Task.Block = &task.Block{File: file, Len: 1 << 20}
	c.run()
	require.Contains(t, c.show(t, 1), "the input has become shorter than block 1")
	require.False(t, c.results[1].BadCommand)
}
