// Package web is the server of crew web. It shows the user's runs in a browser and steers
// them, over their control sockets: whatever has one, so also crew serve, and the workers
// and submitters of an engine, but not the queue that an engine keeps itself.
//
// Serve looks for runs once a second. Each has a goroutine that watches it from then on.
// Its lines are folded into a report for pages to come, and the latest are kept as they
// are for pages that are open. The stream of a browser is a position in these lines, so a
// slow browser costs nothing. If it falls behind what is kept, it loads the page again.
//
// All URLs begin with a token, and only loopback addresses are listened on. Other users of
// the machine, and pages of other sites in the user's browser, reach the server, but do not
// know the token. Nor may a page of another site change anything.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/show/history"
	"crew/runner/show/view"
	"crew/runner/steer/control"
)

const (
	lookEvery = time.Second // for runs
	mostConns = 256         // of browsers
	sendTime  = 30 * time.Second
	partTime  = 2 * time.Second // for requests under way when the server ends
)

// Config says where crew web is reached.
type Config struct {
	Listen    string           // a loopback address with a port, which may be 0; "" for 127.0.0.1:0
	TokenFile string           // keeps the token, and is made if there is none; "" for a token that ends with Serve
	Notice    func(url string) // gets the URL once it can be opened
}

// Serve serves until ctx ends, and returns nil then. The runs are not affected by that.
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
	s.look(ctx)
	s.wg.Go(func() { s.lookAgain(ctx) })
	var conns atomic.Int32
	h := &http.Server{
		Handler: s.guard(s.routes()), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, WriteTimeout: sendTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ConnState: func(c net.Conn, to http.ConnState) {
			switch {
			case to == http.StateNew && conns.Add(1) > mostConns:
				_ = c.Close() // which it is told of in turn
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

// loopback returns the address to listen on.
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

// server has the runs.
type server struct {
	// configuration

	token string
	ip    net.IP                                                  // it listens there
	page  func(w io.Writer, r *history.Report, live string) error // view.Page

	// state

	wg   sync.WaitGroup
	mu   sync.Mutex
	runs map[int]*run // by process ID
}

func newServer(token string, ip net.IP) *server {
	return &server{token: token, ip: ip, page: view.Page, runs: map[int]*run{}}
}

// routes returns what answers the requests that guard lets through.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]http.HandlerFunc{
		"GET /{$}":                      s.showIndex,
		"GET /metrics":                  s.showMetrics,
		"GET /run/{pid}/{$}":            s.showPage,
		"GET /run/{pid}/{place}/events": s.showEvents,
		"GET /run/{pid}/{place}/log":    s.showLog,
		"POST /run/{pid}/{place}/do":    s.do,
	} {
		mux.HandleFunc(pattern, answer)
	}
	return mux
}

// protocol is wiring.WebProtocol.
const protocol = 1

// Main is the main function of crew-web, but that it returns the exit status.
func Main(args []string) int {
	task.SetZone()
	err := do(args[1:])
	switch {
	case err == nil:
		return 0
	case len(args) > 2 && args[2] == "record":
		fmt.Println(task.Printable(err.Error())) // crew tells it
	default:
		fmt.Fprintln(os.Stderr, "crew: "+task.Printable(err.Error()))
	}
	return 1
}

// do carries out what crew asks for.
func do(args []string) error {
	if len(args) < 2 || args[0] == "" || args[0][0] < '0' || args[0][0] > '9' {
		return errors.New("crew-web is started by crew: write crew report, crew web, or crew --report FILE")
	}
	if args[0] != strconv.Itoa(protocol) {
		return fmt.Errorf("crew speaks version %s of its protocol and crew-web version %d: install both from the same source", args[0], protocol)
	}
	switch verb, args := args[1], args[2:]; {
	case verb == "report" && len(args) > 1:
		return report(args[0] == "trace", args[1:])
	case verb == "record" && len(args) == 2:
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) // the run ends first
		return record(args[0], args[1])
	case verb == "web" && len(args) == 2:
		ends := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGHUP}, signal.Ignored) // by nohup
		ctx, stop := signal.NotifyContext(context.Background(), append(ends, syscall.SIGTERM)...)
		defer stop()
		return Serve(ctx, Config{Listen: args[0], TokenFile: args[1], Notice: func(text string) {
			fmt.Fprintln(os.Stderr, "crew: "+task.Printable(text))
		}})
	}
	return fmt.Errorf("crew and crew-web differ about %q: install both from the same source", args[1])
}

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
