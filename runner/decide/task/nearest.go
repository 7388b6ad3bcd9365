package task

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest returns the name in names that is most similar to name, or "" if none is similar. It ignores
// case.
func Nearest(name string, names []string) (best string) {
	least := 0.85 // 1 is the similarity of equal names
	for _, n := range names {
		if like := smetrics.JaroWinkler(strings.ToLower(name), strings.ToLower(n), 0.7, 4); like > least {
			best, least = n, like
		}
	}
	return best
}
