//go:build crew_plain_bar

package sink

import (
	"fmt"
	"strings"
)

// meter is the line with a bar behind it, as progressbar draws it. That module
// links net/http, and what that initialises is a fourth of the time that a
// short run takes: the tag is for a binary whose start-up counts.
func meter(line string, done, total int64, width int) string {
	share := float64(done) / float64(max(total, 1))
	n := int(share * float64(width))
	bar := strings.Repeat("=", n)
	if 0 < n && n < width {
		bar = bar[1:] + ">"
	}
	return fmt.Sprintf("%s %4.0f%% [%s%s]", line, share*100, bar, strings.Repeat(".", width-n))
}
