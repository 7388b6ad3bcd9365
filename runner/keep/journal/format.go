package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"iter"

	"crew/runner/decide/task"
)

// version is the version of the format on disk. A journal of another version is
// refused.
const version = 8

// A journal is a file of JSON lines, one record each, that grep and jq can read.
// After a damaged line, reading goes on at the next newline. Each line ends with
// the CRC-32C of the bytes before it:
//
//	{"event":"ended","id":"…","task":7,…,"outcome":"ok",…,"crc":"1a2b3c4d"}
//
// A line counts only if its checksum is right and its newline is there. The checksum
// covers the body of a line: the object without its closing brace.
const (
	eventMark = `{"event":"`
	idMark    = `,"id":"`
	idLen     = 22 // of an identity in base64url without padding (RFC 4648)
	sumLen    = len(`,"crc":"1a2b3c4d"}` + "\n")
)

// MaxLine is how many bytes a line may have. A longer one is damaged.
const MaxLine = 64 << 20

// The events of a journal.
const (
	evJournal  = "journal"  // the first line: format, command
	evRun      = "run"      // a run begins or resumes
	evStarted  = "started"  // an attempt starts
	evAttempt  = "attempt"  // an attempt ended that does not finish its task
	evEnded    = "ended"    // a task is finished
	evReleased = "released" // the results of these tasks are shown and logged
	evShown    = "shown"    // they are shown
	evLogged   = "logged"   // they are in the joblog and the results tree
	evUnlogged = "unlogged" // the joblog and the results tree start empty: nothing is logged
	evKnown    = "known"    // what removed lines said about a task
	evClosed   = "closed"   // the run ended normally
)

// More events of the journal of a queue.
const (
	evAccepted  = "accepted"  // a task was added, or changed while it waits: this is what it is now
	evWithdrawn = "withdrawn" // these tasks were not added after all
	evDoor      = "door"      // tasks of these numbers follow: so many, or else none of them counts
)

// streams are the names of the members that hold extents.
var streams = [...]string{"stdout", "stderr"}

// castagnoli returns the table of CRC-32C. The standard library computes it at the
// first call, so a run without a journal does not pay for it.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal completes the line whose body is b[from:].
func seal(b []byte, from int) []byte { return appendSum(b, b[from:]) }

// appendSum appends the end of a line: the checksum of body, brace and newline.
func appendSum(b, body []byte) []byte {
	var sum [crc32.Size]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(body, castagnoli()))
	b = append(b, `,"crc":"`...)
	b = hex.AppendEncode(b, sum[:])
	return append(b, "\"}\n"...)
}

// unseal returns the body of a line, if the line is complete and undamaged.
func unseal(line []byte) (body []byte, ok bool) {
	n := len(line) - sumLen
	if n < 0 || !bytes.HasPrefix(line[:n], []byte(eventMark)) {
		return nil, false
	}
	var sum [sumLen]byte
	return line[:n], bytes.Equal(line[n:], appendSum(sum[:0], line[:n]))
}

// begin appends the start of a line about an event.
func begin(b []byte, event string) []byte {
	return append(append(append(b, eventMark...), event...), '"')
}

// beginTask appends the start of a line about an event of a task.
func beginTask(b []byte, event string, id identity) []byte {
	b = append(begin(b, event), idMark...)
	return append(appendID(b, id), '"')
}

func appendID(b []byte, id identity) []byte {
	return base64.RawURLEncoding.AppendEncode(b, id[:])
}

// appendIDs appends the member that lists identities.
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

// parseID parses an identity. It accepts only what appendID writes.
func parseID(b []byte) (id identity, ok bool) {
	if len(b) != idLen {
		return id, false
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(id[:], b); err != nil {
		return identity{}, false
	}
	return id, true
}

// identities is an iterator over the tasks that a body lists.
func identities(body []byte) iter.Seq[identity] {
	return func(yield func(identity) bool) {
		for word := range bytes.SplitSeq(field(body, "ids"), []byte(",")) {
			if id, ok := parseID(bytes.Trim(word, `"`)); ok && !yield(id) {
				return
			}
		}
	}
}

// subject returns the name of a body's event, and the identity of the task that it is about.
func subject(body []byte) (event []byte, id identity) {
	event, rest, _ := bytes.Cut(body[len(eventMark):], []byte(`"`))
	if rest, found := bytes.CutPrefix(rest, []byte(idMark)); found {
		id, _ = parseID(rest[:min(idLen, len(rest))])
	}
	return event, id
}

// members iterates over the members of a body. Names and strings come without their
// quotes but with their escapes, lists without their brackets. The iteration ends
// early if the body is not in this format.
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
				value = value[1:]
				end, closing = listLen(value), 1
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

// stringLen returns the offset of the quote that ends a string, or -1.
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

// listLen returns the offset of the bracket that ends a list, or -1. A list of objects holds
// others.
func listLen(b []byte) int {
	if end := bytes.IndexByte(b, ']'); !bytes.HasPrefix(b, []byte("{")) {
		return end
	}
	for i, depth := 0, 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringLen(b[i+1:])
			if n < 0 {
				return -1
			}
			i += n + 1
		case '[':
			depth++
		case ']':
			if depth--; depth < 0 {
				return i
			}
		}
	}
	return -1
}

// field returns the value of the named member of a body, or nil.
func field(body []byte, name string) []byte {
	for n, value := range members(body) {
		if string(n) == name {
			return value
		}
	}
	return nil
}
