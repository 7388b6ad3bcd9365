package coproc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStdinIsClosed has a worker close its stdin before or after there is a record in it.
func TestStdinIsClosed(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Config{}, "sh", "-c", "exec <&-; exec sleep 1000")
	c.gone = true
	c.add("1")
	c.run()
	require.Contains(t, c.show(t, 1), "ended 3 times before it read a record: it closed stdin")
}
