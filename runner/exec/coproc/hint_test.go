package coproc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStdinIsClosed checks workers that close stdin before or after a record is written to it.
func TestStdinIsClosed(t *testing.T) {
	t.Parallel()
	c := newFixture(t, Config{}, "sh", "-c", "exec <&-; exec sleep 1000")
	c.stopOnFailure = true
	c.add("1")
	c.run()
	require.Contains(t, c.show(t, 1), "ended 3 times before it read a record: it closed stdin")
}
