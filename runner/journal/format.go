package journal

import (
	"bytes"
	"encoding/base64"
	"hash/crc32"

	"crew/runner/task"
)

// version is that of the format on disk. A journal of another one is refused.
const version = 1

// A journal is lines of JSON, one record each, so that people, grep and jq can
// read it where it lies, and so that after damage the next good record is found
// by the next newline. Each line ends with the CRC-32C of what is before it:
//
//	{"event":"ended","task":"…","outcome":"ok",…,"crc":"1a2b3c4d"}
//
// A line is read only where its sum is right and its newline is there.
const (
	sumStart  = `,"crc":"`
	sumEnd    = "\"}\n"
	sumLen    = len(sumStart) + 8 + len(sumEnd)
	eventMark = `{"event":"`
	taskMark  = `","task":"`
	idLen     = 22        // of an identity in base64url without padding (RFC 4648)
	maxLine   = 256 << 10 // no line is longer
)

// The events of a journal.
const (
	evJournal  = "journal"  // the first line: format, command, where outputs are
	evRun      = "run"      // a run begins, or goes on
	evStarted  = "started"  // an attempt begins
	evAttempt  = "attempt"  // an attempt is over that does not finish its task
	evEnded    = "ended"    // the task is finished
	evReleased = "released" // the results of these tasks have been shown and logged
	evShown    = "shown"    // they have been shown
	evLogged   = "logged"   // they have been logged: the joblog and the results tree have them
	evUnlogged = "unlogged" // joblog and results tree begin anew: nothing has been logged
	evKnown    = "known"    // what is known of a task from lines that are gone
	evClosed   = "closed"   // the run ended in good order
)

// castagnoli is the table of CRC-32C. It is made when it is first asked for:
// most runs keep no journal, and it would delay their start.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal ends the object that begins at from and has no closing brace yet.
func seal(b []byte, from int) []byte {
	sum := crc32.Checksum(b[from:], castagnoli())
	b = append(b, sumStart...)
	b = appendHex(b, sum)
	return append(b, sumEnd...)
}

// unseal is the object of a whole line, without its sum and its closing brace.
func unseal(line []byte) (body []byte, ok bool) {
	n := len(line) - sumLen
	if n < len(eventMark) || string(line[:len(eventMark)]) != eventMark ||
		string(line[n:n+len(sumStart)]) != sumStart || string(line[len(line)-len(sumEnd):]) != sumEnd {
		return nil, false
	}
	var want [8]byte
	appendHex(want[:0], crc32.Checksum(line[:n], castagnoli()))
	return line[:n], string(want[:]) == string(line[n+len(sumStart):n+len(sumStart)+8])
}

func appendHex(b []byte, sum uint32) []byte {
	const hex = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, hex[sum>>shift&15])
	}
	return b
}

// begin starts the line of an event.
func begin(b []byte, event string) []byte {
	return append(append(append(b, eventMark...), event...), '"')
}

// beginTask starts the line of an event of a task.
func beginTask(b []byte, event string, id identity) []byte {
	b = append(append(append(b, eventMark...), event...), taskMark...)
	return append(appendID(b, id), '"')
}

func appendID(b []byte, id identity) []byte {
	return base64.RawURLEncoding.AppendEncode(b, id[:])
}

// parseID reads an identity in its one spelling.
func parseID(b []byte) (id identity, ok bool) {
	if len(b) != idLen {
		return id, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(id[:], b)
	return id, err == nil && n == len(id)
}

// event is the name of the event of a line's body.
func event(body []byte) string {
	rest := body[len(eventMark):]
	if n := bytes.IndexByte(rest, '"'); n >= 0 {
		rest = rest[:n]
	}
	return string(rest)
}

// taskOf is the task that a line's body is about.
func taskOf(body []byte) (identity, bool) {
	i := bytes.Index(body, []byte(taskMark))
	if i < 0 || i+len(taskMark)+idLen > len(body) {
		return identity{}, false
	}
	i += len(taskMark)
	return parseID(body[i : i+idLen])
}

// members calls f with the name and the value of each member of a line's body,
// until f returns false: strings and names without their quotes and with their
// escapes, lists without their brackets. What is no line of this format ends it.
func members(body []byte, f func(name, value []byte) bool) {
	rest := body
	for len(rest) > 2 && rest[1] == '"' {
		n := bytes.IndexByte(rest[2:], '"') + 2
		if n < 2 || n+2 >= len(rest) || rest[n+1] != ':' {
			return
		}
		name, v := rest[2:n], rest[n+2:]
		end, close := 0, 0
		switch v[0] {
		case '"':
			v = v[1:]
			end, close = stringLen(v), 1
		case '[':
			v = v[1:]
			end, close = bytes.IndexByte(v, ']'), 1
		default:
			if end = bytes.IndexByte(v, ','); end < 0 {
				end = len(v)
			}
		}
		if end < 0 || !f(name, v[:end]) {
			return
		}
		rest = v[end+close:]
	}
}

// stringLen is how far it is to the quote that ends a string, or -1.
func stringLen(b []byte) int {
	for i := 0; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for slashes < i && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// field is the value of one member of a line's body, nil where it has none.
func field(body []byte, name string) (value []byte) {
	members(body, func(n, v []byte) bool {
		if string(n) == name {
			value = v
			return false
		}
		return true
	})
	return value
}

// without is a line's body without a member that is a list.
func without(body []byte, name string) []byte {
	v := field(body, name)
	if v == nil {
		return body
	}
	mark := string(append(task.AppendName(nil, name), '['))
	before, after, _ := bytes.Cut(body, []byte(mark+string(v)+"]"))
	return append(before[:len(before):len(before)], after...)
}
