package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"crew/runner/steer/control"
)

const (
	mostRequest = 64 << 10 // bytes
	requestTime = 10 * time.Second
)

// do passes a request to the run and answers with the run's reply, or with an object that has an
// error.
func (s *server) do(w http.ResponseWriter, req *http.Request) {
	r, id, _ := s.parsePlace(req)
	q, err := readRequest(w, req)
	switch {
	case err != nil:
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		writeError(w, status, err)
		return
	case r == nil || !r.hasLines(id):
		writeError(w, http.StatusGone, errors.New("this run is no longer watched: load the page again"))
		return
	}
	l := r.now()
	if !l.Over.IsZero() {
		writeError(w, http.StatusGone, errors.New("the run is over"))
		return
	}
	var line []byte
	_, err = control.Ask(req.Context(), l.Hello, q, func(reply []byte, _ *control.Reply) error {
		line = slices.Clone(reply)
		return nil
	})
	refused, ok := errors.AsType[*control.Refused](err)
	if err != nil && !ok {
		writeError(w, http.StatusBadGateway, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if ok {
		w.WriteHeader(statusOf(refused))
	}
	_, _ = w.Write(line)
}

// readRequest reads a request. It returns an error if the body is no request, or one that pages must not
// make.
func readRequest(w http.ResponseWriter, req *http.Request) (q control.Request, err error) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(requestTime))
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, mostRequest))
	_ = c.SetReadDeadline(time.Time{})
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err == nil && !control.Steers(q.Op) && q.Op != "explain" {
		err = errors.New("a page cannot ask for that")
	}
	return q, err
}

func writeError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded(map[string]string{"error": err.Error()}))
}

// statusOf returns the HTTP status for a request that the run refused.
func statusOf(r *control.Refused) int {
	switch {
	case r.Over:
		return http.StatusGone
	case r.Status == 2: // the request makes no sense
		return http.StatusBadRequest
	}
	return http.StatusConflict
}

// showLog sends the output of a task so far, and what it writes until it ends.
func (s *server) showLog(w http.ResponseWriter, req *http.Request) {
	r, id, _ := s.parsePlace(req)
	task, err := strconv.ParseUint(req.FormValue("task"), 10, 64)
	if err != nil || r == nil || !r.hasLines(id) {
		http.Error(w, "there is no such task", http.StatusNotFound)
		return
	}
	began := false
	flush := http.NewResponseController(w).Flush
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = control.Ask(req.Context(), r.now().Hello, control.Request{Op: "log", Tasks: []uint64{task}, Follow: true}, func(_ []byte, l *control.Reply) error {
		if l.Error != "" {
			return nil
		}
		began = true
		if l.Cut > 0 {
			fmt.Fprintf(w, "… %d bytes before this are not kept\n", l.Cut)
		}
		if _, err := w.Write(l.Data); err != nil {
			return err
		}
		return flush()
	})
	if err != nil && !began {
		http.Error(w, err.Error(), http.StatusNotFound)
	}
}
