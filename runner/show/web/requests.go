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

	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

const (
	mostRequest = 64 << 10 // bytes
	requestTime = 10 * time.Second
)

// do passes a request to the run and answers with the run's reply or, if it was not carried out, with an object
// that has an error.
func (s *server) do(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var line []byte
	status := http.StatusBadRequest
	q, err := readRequest(w, req)
	if err == nil {
		status = http.StatusConflict
		line, err = s.steer(req, q)
	}
	if err != nil {
		w.WriteHeader(status)
		line = encoded(map[string]task.Bytes{"error": task.Bytes(err.Error())})
	}
	_, _ = w.Write(line)
}

// steer passes a request to the run and returns the reply.
func (s *server) steer(req *http.Request, q control.Request) (line []byte, err error) {
	r, id, _ := s.parsePlace(req)
	switch {
	case r == nil || !r.hasLines(id):
		return nil, errors.New("this run is no longer watched: load the page again")
	case !r.now().Over.IsZero():
		return nil, errors.New("the run is over")
	}
	_, err = control.Ask(req.Context(), r.now().Hello, q, func(reply []byte, _ *control.Reply) error {
		line = slices.Clone(reply)
		return nil
	})
	return line, err
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

// showLog sends the output of a task so far, and what it writes until it ends.
func (s *server) showLog(w http.ResponseWriter, req *http.Request) {
	r, id, _ := s.parsePlace(req)
	of, err := strconv.ParseUint(req.FormValue("task"), 10, 64)
	if err != nil || r == nil || !r.hasLines(id) {
		http.Error(w, "there is no such task", http.StatusNotFound)
		return
	}
	began := false
	flush := http.NewResponseController(w).Flush
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = control.Ask(req.Context(), r.now().Hello, control.Request{Op: "log", Tasks: []uint64{of}, Follow: true}, func(_ []byte, l *control.Reply) error {
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
