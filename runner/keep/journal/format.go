package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"iter"

	"crew/runner/decide/task"
)

// version is the version of the format on disk. A journal with another version is refused.
const version = 9

// A journal is a file of JSON lines, one record each, that grep and jq can read. After a damaged
// line, reading resumes at the next newline. Each line ends with the CRC-32C of the bytes before
// it:
//
//	{"event":"ended","id":"…","task":7,…,"outcome":"ok",…,"crc":"1a2b3c4d"}
//
// A line is valid only if it has the right checksum and ends with a newline. The checksum covers
// the body of the line, which is the object without its closing brace and the checksum itself.
const (
	eventMark = `{"event":"`
	idMark    = `,"id":"`
	idLen     = 22 // length of an identity in base64url without padding (RFC 4648)
	sumLen    = len(`,"crc":"1a2b3c4d"}` + "\n")
)

// MaxLine is the maximum length of a line in bytes. A longer line counts as damaged.
const MaxLine = 64 << 20

// The events of a journal.
const (
	evJournal  = "journal"  // the first line: format and command
	evRun      = "run"      // a run begins or resumes
	evStarted  = "started"  // an attempt starts
	evAttempt  = "attempt"  // an attempt ended, but not its task
	evEnded    = "ended"    // a task is done
	evShown    = "shown"    // these results were shown
	evLogged   = "logged"   // these results are in the joblog and the results tree
	evUnlogged = "unlogged" // the joblog and the results tree were emptied
	evKnown    = "known"    // the duration of a task from a removed line
	evClosed   = "closed"   // the run ended normally
)

// Further events in the journal of a queue.
const (
	evAccepted  = "accepted"  // a task was added, or changed while waiting; has the whole task
	evWithdrawn = "withdrawn" // these tasks were not added after all
	evDelivery  = "door"      // the tasks of a delivery count if all of them are before this line
)

// streams names the members that hold extents.
var streams = [...]string{"stdout", "stderr"}

// castagnoli returns the CRC-32C table. The standard library computes it on the first call, so a
// run without a journal does not pay for it.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal completes the line with body b[from:].
func seal(b []byte, from int) []byte { return appendSum(b, b[from:]) }

// appendSum appends the end of a line: the checksum of body, a brace and a newline.
func appendSum(b, body []byte) []byte {
	var sum [crc32.Size]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(body, castagnoli()))
	b = append(b, `,"crc":"`...)
	b = hex.AppendEncode(b, sum[:])
	return append(b, "\"}\n"...)
}

// unseal returns the body of a line. ok is false if the line is incomplete or damaged.
func unseal(line []byte) (body []byte, ok bool) {
	n := len(line) - sumLen
	if n < 0 || !bytes.HasPrefix(line[:n], []byte(eventMark)) {
		return nil, false
	}
	var sum [sumLen]byte
	return line[:n], bytes.Equal(line[n:], appendSum(sum[:0], line[:n]))
}

// beginLine appends the beginning of a line about an event.
func beginLine(b []byte, event string) []byte {
	return append(append(append(b, eventMark...), event...), '"')
}

// beginTaskLine appends the beginning of a line about an event of a task.
func beginTaskLine(b []byte, event string, id identity) []byte {
	b = append(beginLine(b, event), idMark...)
	return append(appendID(b, id), '"')
}

func appendID(b []byte, id identity) []byte {
	return base64.RawURLEncoding.AppendEncode(b, id[:])
}

// appendIDs appends a member that lists identities.
func appendIDs(b []byte, ids []identity) []byte {
	b = append(task.AppendName(b, "ids"), '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendID(append(b, '"'), id), '"')
	}
	return append(b, ']')
}

// parseID parses an identity in exactly the form that appendID writes. Others give zero.
func parseID(b []byte) (id identity) {
	if len(b) == idLen {
		if _, err := base64.RawURLEncoding.Strict().Decode(id[:], b); err != nil {
			return identity{}
		}
	}
	return id
}

// listedIDs returns the identities that a body lists.
func listedIDs(body []byte) (ids []identity) {
	for word := range bytes.SplitSeq(field(body, "ids"), []byte(",")) {
		ids = append(ids, parseID(bytes.Trim(word, `"`)))
	}
	return ids
}

// parseEvent returns the event that a body describes and the identity of its task, which is zero if
// it has none.
func parseEvent(body []byte) (event []byte, id identity) {
	event, rest, _ := bytes.Cut(body[len(eventMark):], []byte(`"`))
	if rest, found := bytes.CutPrefix(rest, []byte(idMark)); found {
		id = parseID(rest[:min(idLen, len(rest))])
	}
	return event, id
}

// members iterates over the members of a body. Names and strings have no quotes but keep their
// escapes, and lists have no brackets. The iteration stops early if the body does not have this
// format.
func members(body []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for rest := body; len(rest) > 2 && rest[1] == '"'; {
			n := bytes.IndexByte(rest[2:], '"') + 2
			if n < 2 || n+2 >= len(rest) || rest[n+1] != ':' {
				return
			}
			name, value := rest[2:n], rest[n+2:]
			end, closing := 0, 0
			switch value[0] {
			case '"':
				value = value[1:]
				end, closing = stringLen(value), 1
			case '[':
				end, closing = listLen(value)-1, 1
				value = value[1:]
			default:
				if end = bytes.IndexByte(value, ','); end < 0 {
					end = len(value)
				}
			}
			if end < 0 || !yield(name, value[:end]) {
				return
			}
			rest = value[end+closing:]
		}
	}
}

// stringLen returns the index of the closing quote of a string, or -1.
func stringLen(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// listLen returns the index of the closing bracket of a list, or a negative number. Only a list of
// objects can contain other brackets.
func listLen(b []byte) int {
	if !bytes.HasPrefix(b, []byte("[{")) {
		return bytes.IndexByte(b, ']')
	}
	d := json.NewDecoder(bytes.NewReader(b))
	_ = d.Decode(new(json.RawMessage))
	return int(d.InputOffset()) - 1
}

// field returns the value of the named member, or nil.
func field(body []byte, name string) []byte {
	for n, value := range members(body) {
		if string(n) == name {
			return value
		}
	}
	return nil
}
