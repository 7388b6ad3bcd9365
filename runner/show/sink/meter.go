package sink

import (
	"io"
	"strings"

	"github.com/schollz/progressbar/v3"
)

// meter returns line followed by a bar. Each call makes a new progressbar, because one that has
// reached its end draws nothing more.
func meter(line string, done, total int64, width int) string {
	b := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(io.Discard),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionSetWidth(width),
		progressbar.OptionSetDescription(line+" "),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetRenderBlankState(true), // otherwise 0% is not rendered
	)
	_ = b.Set64(done) // never fails, because done is at most total
	return strings.Trim(b.String(), "\r ")
}
