// Package web is the server of crew web. It shows the user's runs in a browser and controls them over
// their control sockets. That includes crew serve and the workers and submitters of an engine, but not
// the queue inside an engine, which has no socket.
//
// Serve looks for runs once a second and starts a goroutine for each new one, which watches it. The
// lines of a run are folded into a report for pages that will be loaded, and the latest lines are kept
// for pages that are open. The stream of a browser is just a position in these lines, so a slow browser
// costs nothing. If it falls behind the kept lines, it loads the page again.
//
// All URLs begin with a token, and the server listens only on loopback addresses. Other users of the
// machine and pages of other sites in the user's browser can reach it, but do not know the token. Even
// with the token, a page of another site cannot change anything.
package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/show/history"
	"crew/runner/show/view"
)

const (
	lookEvery = time.Second // for runs
	mostConns = 256         // of browsers
	sendTime  = 30 * time.Second
	partTime  = 2 * time.Second // for pending requests when the server ends
)

// Config configures Serve.
type Config struct {
	Listen    string           // a loopback address with a port, which may be 0; "" for 127.0.0.1:0
	TokenFile string           // file with the token, created if missing; "" for a new token that is not stored
	Notice    func(url string) // called with the URL once it can be opened
}

// Serve serves until ctx ends and then returns nil. Runs are not affected when it returns.
func Serve(ctx context.Context, cfg Config) error {
	address, err := loopback(cfg.Listen)
	if err != nil {
		return err
	}
	token, err := readToken(cfg.TokenFile)
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: --listen takes another address", address, errors.Unwrap(err))
	}
	s := newServer(token, address.IP)
	ctx, cancel := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer cancel()
	s.findRuns(ctx)
	s.wg.Go(func() { s.keepFinding(ctx) })
	var conns atomic.Int32
	h := &http.Server{
		Handler: s.guard(s.routes()), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, WriteTimeout: sendTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ConnState: func(c net.Conn, to http.ConnState) {
			switch {
			case to == http.StateNew && conns.Add(1) > mostConns:
				_ = c.Close() // ConnState is called again with StateClosed
			case to == http.StateClosed:
				conns.Add(-1)
			}
		},
	}
	over := make(chan error, 1)
	s.wg.Go(func() { over <- h.Serve(l) })
	cfg.Notice(fmt.Sprintf("http://%s/%s/", l.Addr(), token))
	select {
	case err = <-over:
	case <-ctx.Done():
		part, stop := context.WithTimeout(context.WithoutCancel(ctx), partTime)
		defer stop()
		_ = h.Shutdown(part)
	}
	_ = h.Close()
	return err
}

// loopback parses the address to listen on. It returns an error unless that is a loopback address.
func loopback(text string) (*net.TCPAddr, error) {
	if text == "" {
		text = "127.0.0.1:0"
	}
	a, err := net.ResolveTCPAddr("tcp", text)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w: give an address and a port, as in --listen 127.0.0.1:8080", text, err)
	}
	if !a.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is no loopback address: use --listen 127.0.0.1:8080 and, on another machine, ssh -L 8080:127.0.0.1:8080 HOST", text)
	}
	return a, nil
}

// server answers requests and holds the runs.
type server struct {
	// configuration

	token string
	ip    net.IP                                                  // where it listens
	page  func(w io.Writer, r *history.Report, live string) error // view.Page

	// state

	wg   sync.WaitGroup
	mu   sync.Mutex
	runs map[int]*run // by process ID
}

func newServer(token string, ip net.IP) *server {
	return &server{token: token, ip: ip, page: view.Page, runs: map[int]*run{}}
}

// routes returns the handler of the requests that pass guard.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]http.HandlerFunc{
		"GET /{$}":                      s.showIndex,
		"GET /metrics":                  s.showMetrics,
		"GET /run/{pid}/{$}":            s.showPage,
		"GET /run/{pid}/{place}/events": s.showEvents,
		"GET /run/{pid}/{place}/log":    s.showLog,
		"GET /run/{pid}/{place}/parts":  s.showParts,
		"POST /run/{pid}/{place}/do":    s.do,
	} {
		mux.HandleFunc(pattern, answer)
	}
	return mux
}

// protocol is webProtocol of package wiring.
const protocol = 1

// Main is the main function of crew-web. It returns the exit status.
func Main(args []string) int {
	words, err := task.HelperWords(args, protocol, 1, "crew report, crew web, or crew --report FILE")
	if err == nil {
		err = runVerb(words)
	}
	switch {
	case err == nil:
		return 0
	case len(args) > 3 && args[3] == "record":
		fmt.Println(task.Printable(err.Error())) // crew prints it
	default:
		fmt.Fprintln(os.Stderr, "crew: "+task.Printable(err.Error()))
	}
	return 1
}

// runVerb carries out the verb of crew's command line.
func runVerb(args []string) error {
	switch verb, args := args[0], args[1:]; verb {
	case "report":
		if args[0] == "openmetrics" {
			return printMetrics(os.Stdout, args[1:])
		}
		return report(args[0] == "trace", args[1:])
	case "record":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) // the run ends first
		return record(args[0], args[1])
	default: // web
		ends := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGHUP}, signal.Ignored) // by nohup
		ctx, stop := signal.NotifyContext(context.Background(), append(ends, syscall.SIGTERM)...)
		defer stop()
		return Serve(ctx, Config{Listen: args[0], TokenFile: args[1], Notice: func(text string) {
			fmt.Fprintln(os.Stderr, "crew: "+task.Printable(text))
		}})
	}
}

// pageHeaders sets the headers of a page. Its own policy allows its script and style.
func pageHeaders(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
}

// showIndex sends the list of runs. The state of a run that is over is ended or killed.
func (s *server) showIndex(w http.ResponseWriter, _ *http.Request) {
	var runs []view.Listed
	for _, r := range s.list() {
		runs = append(runs, r.Listed)
	}
	pageHeaders(w)
	_ = view.Index(w, runs)
}

// showPage sends the page of a run. The page then asks for the events that it does not include.
func (s *server) showPage(w http.ResponseWriter, req *http.Request) {
	r := s.find(req.PathValue("pid"))
	if r == nil {
		http.Error(w, "there is no such run: it has ended, or cannot be controlled", http.StatusNotFound)
		return
	}
	r.askCurves(req.Context())
	report, id, next := r.report()
	pageHeaders(w)
	_ = s.page(w, report, placeOf(id, next))
}

// showParts sends the parts of a page that the server renders, as they are now.
func (s *server) showParts(w http.ResponseWriter, req *http.Request) {
	r, id, _ := s.parsePlace(req)
	if r == nil || !r.hasLines(id) {
		http.Error(w, "this run is no longer watched: load the page again", http.StatusGone)
		return
	}
	r.askCurves(req.Context())
	report, _, _ := r.report()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = view.Parts(w, report)
}
