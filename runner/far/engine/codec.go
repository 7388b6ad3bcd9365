package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/far/wire"
	"crew/runner/front/cli"
)

var errGarbage = wire.ErrGarbage

// versionError reports a message of another version.
type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it has version %d of crew's wire format, not %d: install the same version of crew on all machines", e.got, Version)
}

// headSize is the length of the header of each message.
const headSize = 4

func head(kind byte) []byte { return []byte{'c', 'r', Version, kind} }

// encode returns a message of the given kind with the fields of *from.
func encode(kind byte, from any) []byte { return wire.Append(head(kind), from) }

// decode decodes all of msg, which must be of the given kind. If the type has a method bad, that can
// refuse the value.
func decode[T any](msg []byte, kind byte) (*T, error) {
	content, ok := bytes.CutPrefix(msg, head(kind))
	if !ok {
		return nil, errGarbage
	}
	to := new(T)
	err := wire.Decode(content, to)
	if v, ok := any(to).(interface{ bad() bool }); ok && err == nil && v.bad() {
		err = errGarbage
	}
	return to, err
}

// readJSON decodes JSON from another process into *to and checks that its numbers are within bounds.
func readJSON(text []byte, to any) error {
	err := json.Unmarshal(text, to)
	if err == nil && !wire.Bounded(to) {
		err = errGarbage
	}
	return err
}

// splitMessages yields the messages bundled in msg. It yields the rest as one message if the next one
// is malformed.
func splitMessages(msg []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(msg) > 0 {
			rest := wire.Rest(msg[min(len(msg), headSize):])
			if !yield(msg[:len(msg)-len(rest)]) {
				return
			}
			msg = rest
		}
	}
}

// digest returns a hash of a command, by which submitters and workers compare theirs, and the command for people.
// Two commands with the same digest do the same with a record that has the same columns.
func digest(o *cli.Options) (sum [32]byte, text string) {
	words := o.CommandOptions()
	b := wire.Append([]byte("crew-template-5"), []any{o.Protocol(), words, o.Words()})
	for _, w := range o.Words() {
		words = append(words, task.Quote(w))
	}
	return sha256.Sum256(b), strings.Join(words, " ")
}
