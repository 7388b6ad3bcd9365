//go:build !unix

package sink

import (
	"io"
	"time"
)

// awaitWritable gives w's reader a moment.
func awaitWritable(io.Writer) error {
	time.Sleep(10 * time.Millisecond)
	return nil
}

// writable cannot be known here.
func writable(io.Writer) bool { return true }

// abandoned cannot be known here.
func abandoned(io.Writer) bool { return false }
