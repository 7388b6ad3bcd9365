package wiring

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

// TestReplyOfAnotherProgram checks that a reply without the status of the run is none.
func TestReplyOfAnotherProgram(t *testing.T) {
	c := &ctl{Ctl: &cli.Ctl{Request: control.Request{Op: "status"}}}
	require.NoError(t, c.printReply(nil, &control.Reply{End: true}))
}
