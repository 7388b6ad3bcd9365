package engine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/far/wire"
	"crew/runner/front/wiring"
)

var errGarbage = wire.ErrGarbage

// versionError is the error of a message of another version.
type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it is of version %d of crew's wire format, this is version %d: install the same crew on all machines", e.got, Version)
}

// headSize is the length of what begins each message.
const headSize = 4

// encode returns the message of a kind that holds what from points to.
func encode(kind byte, from any) []byte { return wire.Append([]byte{'c', 'r', Version, kind}, from) }

// decode reads a whole message of a kind.
func decode[T any](msg []byte, kind byte) (*T, error) {
	if len(msg) < headSize || msg[0] != 'c' || msg[1] != 'r' || msg[2] == Version && msg[3] != kind {
		return nil, errGarbage
	}
	if msg[2] != Version {
		return nil, &versionError{int(msg[2])}
	}
	to := new(T)
	return to, wire.Decode(msg[headSize:], to)
}

// readJSON reads what came from elsewhere into what to points to. Its numbers are bounded.
func readJSON(text []byte, to any) error {
	err := json.Unmarshal(text, to)
	if err == nil && !wire.Bounded(to) {
		err = errGarbage
	}
	return err
}

// parts returns the messages of several, one behind the other. After a mistake they are one.
func parts(msg []byte) iter.Seq[[]byte] {
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

// digest returns what a submitter and a worker compare of their commands, and the
// command as people read it. Two commands with the same digest make the same of a
// record, as far as that has the same columns: their names travel with each task.
func digest(t wiring.Template) (sum [32]byte, text string) {
	t.Names, t.Caps = nil, nil
	b := wire.Append([]byte("crew-template-4"), &t)
	words := t.Options()
	for _, w := range t.Words {
		words = append(words, task.Quote(w))
	}
	return sha256.Sum256(b), strings.Join(words, " ")
}
