package web

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"crew/runner/steer/control"
)

const (
	gather = 100 * time.Millisecond // between two looks for what is to be sent
	silent = 15 * time.Second       // until something is sent so that one that is gone is noticed
)

// place returns what the URL of a request is about: a run, which is nil if there is none, the
// id of its lines, and a place in them.
func (s *server) place(req *http.Request) (r *run, id string, next int) {
	id, n, _ := strings.Cut(req.PathValue("place"), "-")
	next, err := strconv.Atoi(n)
	if err != nil {
		next = -1
	}
	return s.find(req.PathValue("pid")), id, next
}

// placeOf returns the part of a URL that place takes apart, as a relative URL.
func placeOf(id string, next int) string { return fmt.Sprintf("./%s-%d/", id, next) }

// showEvents sends what happens in a run after a place, until it is over: the events lines,
// each with the place behind it as its id, and status. The last one is over, or reload if
// the page has to be loaded again.
func (s *server) showEvents(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	r, id, next := s.place(req)
	if last, err := strconv.Atoi(req.Header.Get("Last-Event-ID")); err == nil {
		next = last
	}
	if r == nil {
		_, _ = io.WriteString(w, "event: over\ndata: null\n\n")
		return
	}
	flush := http.NewResponseController(w).Flush
	var status *control.Status
	for last := (time.Time{}); ; {
		n := r.since(id, next)
		next += len(n.lines)
		if n.status == status {
			n.status = nil
		} else {
			status = n.status
		}
		text := n.events(next)
		if len(text) == 0 && time.Since(last) > silent {
			text = []byte("retry: 1000\n\n")
		}
		if len(text) > 0 {
			last = time.Now()
			if _, err := w.Write(text); err != nil || flush() != nil {
				return
			}
		}
		if n.lost || n.over != "" || !n.rest && !pause(req.Context(), gather) {
			return
		}
	}
}

// events returns the news as server-sent events. next is the place behind them.
func (n *news) events(next int) []byte {
	var b bytes.Buffer
	if n.lost {
		return []byte("event: reload\ndata: null\n\n")
	}
	if len(n.lines) > 0 {
		fmt.Fprintf(&b, "event: lines\nid: %d\ndata: [%s]\n\n", next, bytes.Join(n.lines, []byte(",")))
	}
	if n.status != nil {
		fmt.Fprintf(&b, "event: status\ndata: %s\n\n", encoded(n.status))
	}
	if n.over != "" {
		fmt.Fprintf(&b, "event: over\ndata: %s\n\n", encoded(n.over))
	}
	return b.Bytes()
}

// encoded returns a value as JSON.
func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return text
}

const (
	mostKept  = 16 << 20  // bytes of the lines of a run
	mostBatch = 256 << 10 // of those that are sent at once, unless it is one line
)

// lines are the latest lines of a run, numbered from 0.
type lines struct {
	id    string // of this numbering, as another one gives the same numbers to other lines
	kept  [][]byte
	first int // the number of kept[0]
	size  int // bytes of kept
	most  int // the most that size is to be
}

func newLines() lines { return lines{id: rand.Text(), most: mostKept} }

// next returns the number of the line that comes next.
func (l *lines) next() int { return l.first + len(l.kept) }

// add adds a line, which is not copied.
func (l *lines) add(line []byte) {
	l.kept = append(l.kept, line)
	l.size += len(line)
	for l.size > l.most {
		l.drop(1)
	}
}

// drop forgets the first n lines that are kept.
func (l *lines) drop(n int) {
	for i := range n {
		l.size -= len(l.kept[i])
		l.kept[i] = nil
	}
	l.kept = l.kept[n:]
	l.first += n
}

// from returns lines from a number on, or false if they are not kept any more, or never
// were.
func (l *lines) from(n int) (batch [][]byte, ok bool) {
	if n < l.first || n > l.next() {
		return nil, false
	}
	size := 0
	for _, line := range l.kept[n-l.first:] {
		if size += len(line); size > mostBatch && len(batch) > 0 {
			break
		}
		batch = append(batch, line)
	}
	return batch, true
}
