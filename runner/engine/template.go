package engine

import (
	"crypto/sha256"
	"strings"

	"crew/runner/cli"
	"crew/runner/task"
)

// digest returns what a submitter and a worker compare of their commands, and the
// command as people read it. Two commands with the same digest make the same of a
// record, as far as that has the same columns: their names travel with each task.
func digest(t cli.Template) (sum [32]byte, text string) {
	e := &enc{}
	e.text("crew-template-1")
	e.texts(t.Words)
	e.text(t.Shell)
	e.text(t.Replace)
	for _, set := range [...]bool{t.Stdin, t.NoArgs, t.Objects} {
		e.bool(set)
	}
	words := t.Options()
	for _, w := range t.Words {
		words = append(words, task.Quote(w))
	}
	return sha256.Sum256(e.b), strings.Join(words, " ")
}
