package engine

import (
	"crypto/sha256"
	"strings"

	"crew/runner/task"
	"crew/runner/wire"
	"crew/runner/wiring"
)

// digest returns what a submitter and a worker compare of their commands, and the
// command as people read it. Two commands with the same digest make the same of a
// record, as far as that has the same columns: their names travel with each task.
func digest(t wiring.Template) (sum [32]byte, text string) {
	t.Names, t.Caps = nil, nil
	b := wire.Append([]byte("crew-template-3"), &t)
	words := t.Options()
	for _, w := range t.Words {
		words = append(words, task.Quote(w))
	}
	return sha256.Sum256(b), strings.Join(words, " ")
}
