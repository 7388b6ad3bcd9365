//go:build crew_plain_bar

package sink

import (
	"fmt"
	"strings"
)

// meter returns line followed by a bar as progressbar draws it. That module links
// net/http, whose initialization takes a quarter of the time of a short run: the
// build tag is for a binary that starts faster.
func meter(line string, done, total int64, width int) string {
	share := float64(done) / float64(max(total, 1))
	n := int(share * float64(width))
	bar := strings.Repeat("=", n)
	if 0 < n && n < width {
		bar = bar[1:] + ">"
	}
	return fmt.Sprintf("%s %4d%% [%s%s]", line, int(share*100), bar, strings.Repeat(".", width-n))
}
