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
	gather = 100 * time.Millisecond // between two looks for news
	silent = 15 * time.Second       // until something is sent to notice that a browser is gone
)

// parsePlace parses the URL of a request: the run, or nil if there is none, the id of its lines, and the
// number of the next line to send, or -1.
func (s *server) parsePlace(req *http.Request) (r *run, id string, next int) {
	id, n, _ := strings.Cut(req.PathValue("place"), "-")
	next, err := strconv.Atoi(n)
	if err != nil {
		next = -1
	}
	return s.find(req.PathValue("pid")), id, next
}

// placeOf returns the URL, relative to the page, that parsePlace parses.
func placeOf(id string, next int) string { return fmt.Sprintf("./%s-%d/", id, next) }

// showEvents sends what happens in a run from a place on, until the run is over. It sends lines, with
// the number of the next line as the event's id, and status, after queue if others feed the run. The last
// event is over, or reload if the page has to be loaded again.
func (s *server) showEvents(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	r, id, next := s.parsePlace(req)
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

// events returns the news as server-sent events. next is the number of the line after them.
func (n *news) events(next int) []byte {
	var b bytes.Buffer
	if n.lost {
		return []byte("event: reload\ndata: null\n\n")
	}
	if len(n.lines) > 0 {
		fmt.Fprintf(&b, "event: lines\nid: %d\ndata: [%s]\n\n", next, bytes.Join(n.lines, []byte(",")))
	}
	if n.status != nil && n.feeds {
		b.WriteString("event: queue\ndata: null\n\n")
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
	mostKept  = 16 << 20  // bytes of lines kept of a run
	mostBatch = 256 << 10 // bytes of lines in one event, unless a single line is longer
)

// lines are the latest lines of a run, numbered from 0.
type lines struct {
	id    string // identifies this numbering; after a reset, the same numbers mean other lines
	kept  [][]byte
	first int // number of kept[0]
	size  int // bytes in kept
	most  int // limit of size
}

func newLines() lines { return lines{id: rand.Text(), most: mostKept} }

// next returns the number of the next line.
func (l *lines) next() int { return l.first + len(l.kept) }

// add adds a line without copying it, and drops the oldest ones if there are too many.
func (l *lines) add(line []byte) {
	l.kept = append(l.kept, line)
	l.size += len(line)
	for l.size > l.most {
		l.size -= len(l.kept[0])
		l.kept[0] = nil
		l.kept = l.kept[1:]
		l.first++
	}
}

// from returns a batch of lines from number n on. ok is false if line n is no longer kept or never
// existed.
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
