//go:build !crew_plain_bar

package sink

import (
	"io"
	"strings"

	"github.com/schollz/progressbar/v3"
)

// meter is the line with a bar behind it. A new progressbar for each look keeps
// its own state out of the way: it draws nothing more once it has reached its
// end, and a total of -1 would give it a goroutine.
func meter(line string, done, total int64, width int) string {
	b := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(io.Discard),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionSetWidth(width),
		progressbar.OptionSetDescription(line+" "),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetRenderBlankState(true), // or 0 % would not be rendered
	)
	if err := b.Set64(done); err != nil {
		return line
	}
	return strings.Trim(b.String(), "\r ")
}
