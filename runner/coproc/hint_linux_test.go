//go:build !crew_portable

package coproc

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func TestHint(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", "while read x; do :; done")
	c.hold = true
	c.add("1")
	c.ended = func(*task.Result) { c.hold = false }
	c.noticed = func(string) { go c.End(1, 1, 1, errors.New("enough")) }
	c.run()
	require.Contains(t, c.notices[0], "worker 1 has read record 1, answers nothing and waits for more: does it flush?")
}
