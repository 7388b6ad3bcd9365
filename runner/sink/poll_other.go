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
