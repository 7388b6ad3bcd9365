package wiring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// However many jobs make was given, the run has no more workers than with -j 0.
func TestJobsOfMake(t *testing.T) {
	for flags, jobs := range map[string]int{" -j7": 7, " -j99999999": mostJobs, " -j-7": 0} {
		var p pool
		p.findJobserver(parsed(t), flags+" --jobserver-auth=-2,-2")
		require.Equal(t, jobs, p.jobs, flags)
	}
}
