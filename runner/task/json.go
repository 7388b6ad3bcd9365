package task

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// The Append functions write JSON members in a fixed order, without reflection.
// Each member begins with a comma, so it cannot be the first one of its object.

// AppendName appends the name of a member.
func AppendName(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}

// AppendInt appends a number.
func AppendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(AppendName(b, name), n, 10)
}

// AppendSeconds appends a duration in seconds, to the nanosecond.
func AppendSeconds(b []byte, name string, d time.Duration) []byte {
	return strconv.AppendFloat(AppendName(b, name), d.Seconds(), 'f', -1, 64)
}

// AppendTime appends a time as in RFC 3339, to the nanosecond.
func AppendTime(b []byte, name string, t time.Time) []byte {
	b = append(AppendName(b, name), '"')
	return append(t.AppendFormat(b, time.RFC3339Nano), '"')
}

// AppendNull appends null.
func AppendNull(b []byte, name string) []byte { return append(AppendName(b, name), "null"...) }

// AppendTrue appends true.
func AppendTrue(b []byte, name string) []byte { return append(AppendName(b, name), "true"...) }

// AppendText appends a string.
func AppendText(b []byte, name, s string) []byte { return AppendString(AppendName(b, name), s) }

// AppendFacts appends the members of a result except its output. A value that is
// unknown, or does not apply to the outcome, is null.
func (r *Result) AppendFacts(b []byte) []byte {
	b = append(append(append(AppendName(b, "outcome"), '"'), r.Outcome.String()...), '"')
	if r.Outcome.HasCode() {
		b = AppendInt(b, "exit", int64(r.Code))
	} else {
		b = AppendNull(b, "exit")
	}
	b = AppendInt(b, "signal", int64(r.Signal))
	b = AppendInt(b, "attempt", int64(r.Attempt))
	b = AppendInt(b, "worker", int64(r.Worker))
	if r.Host != "" {
		b = AppendText(b, "host", r.Host)
	}
	b = AppendInt(b, "pid", int64(r.PID))
	if r.Start.IsZero() {
		b = AppendNull(b, "start")
	} else {
		b = AppendTime(b, "start", r.Start)
	}
	b = AppendSeconds(b, "duration", r.Duration())
	b = AppendSeconds(b, "user", r.User)
	b = AppendSeconds(b, "system", r.System)
	if r.MaxRSS > 0 {
		b = AppendInt(b, "maxrss", r.MaxRSS)
	} else {
		b = AppendNull(b, "maxrss")
	}
	if r.Leaked {
		b = AppendTrue(b, "leaked")
	}
	return b
}

// AppendString appends s as a JSON string, with U+FFFD for each byte that is not
// UTF-8.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	if utf8.ValidString(s) {
		return append(AppendJSON(b, s), '"')
	}
	var valid []byte
	for _, r := range s { // U+FFFD for an invalid byte
		valid = utf8.AppendRune(valid, r)
	}
	return append(AppendJSON(b, valid), '"')
}

// AppendJSON appends p escaped for a JSON string, without the quotes (RFC 8259,
// section 7). It looks at single bytes, so p may begin or end inside a character.
func AppendJSON[T string | []byte](b []byte, p T) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, p[from:i]...)
		from = i + 1
		switch {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case '\b' <= c && c <= '\r' && c != '\v':
			b = append(b, '\\', "btn fr"[c-'\b'])
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(b, p[from:]...)
}
