package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"crew/runner/task"
	"crew/runner/wire"
	"crew/runner/wiring"
)

var errGarbage = wire.ErrGarbage

// versionError is the error of a message of another version.
type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it is of version %d of crew's wire format, this is version %d: install the same crew on all machines", e.got, Version)
}

// head begins a message of a kind.
func head(kind byte) []byte { return append(make([]byte, 0, 256), 'c', 'r', Version, kind) }

// encode returns the message of a kind that holds what from points to.
func encode(kind byte, from any) []byte { return wire.Append(head(kind), from) }

// open returns the body of a message of a kind.
func open(msg []byte, kind byte) ([]byte, error) {
	if len(msg) < 4 || msg[0] != 'c' || msg[1] != 'r' {
		return nil, errGarbage
	}
	if msg[2] != Version {
		return nil, &versionError{int(msg[2])}
	}
	if msg[3] != kind {
		return nil, errGarbage
	}
	return msg[4:], nil
}

// decode reads a whole message of a kind.
func decode[T any](msg []byte, kind byte) (*T, error) {
	to := new(T)
	body, err := open(msg, kind)
	if err == nil {
		err = wire.Decode(body, to)
	}
	if err != nil {
		return nil, err
	}
	return to, nil
}

// readJSON reads what came from elsewhere into what to points to. Its numbers are bounded.
func readJSON(text []byte, to any) error {
	err := json.Unmarshal(text, to)
	if err == nil && !wire.Bounded(to) {
		err = errGarbage
	}
	return err
}

// bundle returns one message of several.
func bundle(messages [][]byte) []byte {
	b := head(kindBundle)
	for _, m := range messages {
		b = append(binary.AppendUvarint(b, uint64(len(m))), m...)
	}
	return b
}

// parts returns the messages of one that may be a bundle. Those of a broken one come up
// to the mistake.
func parts(msg []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		b, err := open(msg, kindBundle)
		if err != nil {
			yield(msg)
			return
		}
		for len(b) > 0 {
			n, size := binary.Uvarint(b)
			if b = b[max(size, 0):]; size <= 0 || n > uint64(len(b)) || !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

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
