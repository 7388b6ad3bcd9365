package web

import (
	"cmp"
	"net/http"
	"strconv"

	"crew/runner/control"
	"crew/runner/view"
)

// pageHeaders lets a page have scripts and styles, as its own policy says.
func pageHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
}

// showIndex shows the runs. The state of those that are over is ended or killed.
func (s *server) showIndex(w http.ResponseWriter, _ *http.Request) {
	var runs []control.Hello
	for _, r := range s.list() {
		runs = append(runs, r.hello)
	}
	pageHeaders(w)
	_ = view.Index(w, runs)
}

// showPage shows a run. The page goes on with the events after the last one that it tells.
func (s *server) showPage(w http.ResponseWriter, req *http.Request) {
	r := s.find(req.PathValue("pid"))
	if r == nil {
		http.Error(w, "there is no such run: it has ended, or cannot be controlled", http.StatusNotFound)
		return
	}
	report, id, next := r.report()
	pageHeaders(w)
	_ = s.page(w, report, placeOf(id, next))
}

// name returns what people call a run.
func name(h *control.Hello) string { return cmp.Or(h.Name, strconv.Itoa(h.PID)) }
