package view

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/show/history"
	"crew/runner/steer/control"
)

// TestBrowser plays the stories of testdata/browser.txt in one browser, because starting it takes a second
// or two. A step is one of these, where $ finds an element and text returns the text of one:
//
//	soak           only the soak plays the rest
//	visit URL      open a page
//	size N THEME   resize the window
//	key NAME...    press keys
//	do CODE        evaluate it
//	await CODE     wait until it is true
//	see, has, lacks CODE ==> TEXT
//	               its value is this text, contains it, or does not
//	send TEXT      send an event to the page of the live run
//	queue CODE     its value is the waiting tasks of the live run
//	asked, stream TEXT
//	               the page has made this request, or opened or closed this stream
//	pause          the run in the list of runs pauses
//	expected TEXT  an error of the page was right
func TestBrowser(t *testing.T) {
	b, l := open(t), startLive(t)
	dir := t.TempDir()
	crewtest.WriteFile(t, dir+"/many.html", many(), 0o600)
	crewtest.WriteFile(t, dir+"/made.html", page(t, made(600, 3), ""), 0o600)
	alike := &history.Report{Runs: []history.Run{{Ended: true}}}
	for i, name := range []string{"a", "b"} {
		alike.Attempts.List = append(alike.Attempts.List, history.Attempt{Task: uint64(i), Lane: -1, Outcome: task.OK, Final: true, Command: "/usr/bin/gcc -O2 -c src/" + name + ".c"})
	}
	crewtest.WriteFile(t, dir+"/alike.html", page(t, alike, ""), 0o600)
	crewtest.Stories(t, "testdata/browser.txt", func(t *testing.T, steps []string) {
		b.t = t
		for _, step := range steps {
			l.step(t, b, dir, step)
		}
		require.Nil(t, b.eval(`document.documentElement.dataset.canary`))
		b.leave()
	})
	b.t = t
	require.Empty(t, b.errors)
}

// step does a step of a story, in which some words stand for others.
func (l *live) step(t *testing.T, b *browser, dir, step string) {
	at := func(after time.Duration) string { return time.Now().Add(after).Format(time.RFC3339Nano) }
	op, text, _ := strings.Cut(strings.NewReplacer(
		"MANY", "file://"+dir+"/many.html", "MADE", "file://"+dir+"/made.html", "ALIKE", "file://"+dir+"/alike.html", "LIVE", l.url, "RUNS", l.url+"../runs", "NOW", at(0), "SOON", at(time.Millisecond), "AGO", at(-time.Minute), "FIRST", l.first.Format(time.RFC3339Nano),
		"CANARY", canary, "HOSTILE", strconv.Quote(hostile[1]), "CONTRAST", contrast, "ESC", "\x1b",
	).Replace(step), " ")
	code, want, _ := strings.Cut(text, " ==> ")
	words := append(strings.Fields(text), "")
	switch op {
	case "#":
	case "soak":
		crewtest.SoakOnly(t)
	case "visit":
		require.Positive(t, b.visit(text))
	case "size":
		width, err := strconv.Atoi(words[0])
		require.NoError(t, err)
		b.size(width, words[1] == "dark")
	case "key":
		for key := range strings.FieldsSeq(text) {
			b.key(key)
		}
	case "do":
		b.eval(text)
	case "await":
		b.await(text)
	case "see":
		require.Equal(t, want, fmt.Sprint(b.eval(code)), step)
	case "has":
		require.Contains(t, b.eval(code), want, step)
	case "lacks":
		require.NotContains(t, b.eval(code), want, step)
	case "send":
		l.events <- strings.ReplaceAll(text, `\n`, "\n")
	case "queue":
		l.queue.Store(b.eval("JSON.stringify(" + text + ")"))
	case "asked":
		require.Equal(t, text, crewtest.Receive(t, l.asked, "a request"))
	case "stream":
		require.Equal(t, text, crewtest.Receive(t, l.streams, "a stream"))
	case "pause":
		l.paused.Store(true)
	case "expected":
		b.errors = slices.DeleteFunc(b.errors, func(e string) bool { return strings.Contains(e, text) })
	default:
		require.Fail(t, "no such step", step)
	}
}

// await waits until an expression is true.
func (b *browser) await(expression string) {
	b.t.Helper()
	b.eval(`new Promise((done, fail) => {
		const look = () => (` + expression + `) ? done() : setTimeout(look, 20);
		setTimeout(fail, 240000, "it did not come true");
		look();
	})`)
}

// live is a fake server of the page of a run.
type live struct {
	url                    string
	first                  time.Time // the start of its task
	events, asked, streams chan string
	paused                 atomic.Bool
	queue                  atomic.Value // the waiting tasks, as JSON
}

func startLive(t *testing.T) *live {
	over := make(chan struct{})
	start := time.Now().Add(-time.Minute)
	l := &live{first: start.Add(time.Second / 2), events: make(chan string, 8), asked: make(chan string, 8), streams: make(chan string, 8)}
	r := &history.Report{Title: "crew serve", Made: time.Now(), Runs: []history.Run{{Source: "queue", Start: start, End: time.Now()}}}
	r.Attempts = history.Attempts{
		Base: start, Lanes: []history.Lane{{Worker: 1}},
		List: []history.Attempt{{Task: 1, Number: 1, Start: l.first.UnixNano(), Took: -1, Waited: -1, Command: "first"}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /x/{$}", func(w http.ResponseWriter, _ *http.Request) { _ = Page(w, r, "./a-7/") })
	mux.HandleFunc("GET /x/{place}/events", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		l.streams <- req.PathValue("place")
		defer func() { l.streams <- "gone" }()
		for {
			select {
			case e := <-l.events:
				fmt.Fprint(w, e, "\n\n")
				w.(http.Flusher).Flush()
			case <-over:
				return
			case <-req.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("GET /x/{place}/parts", func(w http.ResponseWriter, _ *http.Request) {
		now := *r
		now.Total = history.Figures{Tasks: 2, Failed: 1, Most: time.Minute, Median: time.Minute}
		now.Failed.List = []history.Ended{{Facts: task.Facts{Task: 1, Outcome: task.Exit, Exit: new(int), Command: "first"}, Output: []byte("disk full\n")}}
		*now.Failed.List[0].Exit = 3
		_ = Parts(w, &now)
	})
	mux.HandleFunc("POST /x/{place}/do", func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if string(body) == `{"op":"explain","only":"waiting","n":200}` {
			fmt.Fprintf(w, `{"v":2,"end":true,"wheres":%s}`, l.queue.Load())
			return
		}
		l.asked <- req.Header.Get("Content-Type") + " " + string(body)
		if string(body) == `{"op":"pause"}` {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error":"<b>not now</b>"}`)
			return
		}
		fmt.Fprint(w, `{"v":2,"end":true}`)
	})
	mux.HandleFunc("GET /x/{place}/log", func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "task %s \x1b[1mwrites\x1b[0m\n%s\a", req.FormValue("task"), hostile[1])
	})
	mux.HandleFunc("GET /runs", func(w http.ResponseWriter, _ *http.Request) {
		run := Listed{Hello: control.Hello{PID: 7, Name: "nightly-build-of-everything", Command: task.Bytes(hostile[0]), State: "running", Since: time.Now()}}
		run.Total = new(int64(8))
		if l.paused.Load() {
			run.State, run.Done, run.Failed = "paused", 4, 1
		}
		_ = Index(w, []Listed{run})
	})
	server := httptest.NewServer(mux)
	l.url = server.URL + "/x/"
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	return l
}

// contrast is the lowest contrast of the texts of the question and of the states, as WCAG 2 defines it.
const contrast = `(() => {
	const light = color => {
		const c = document.createElement("canvas").getContext("2d");
		c.fillStyle = color;
		c.fillRect(0, 0, 1, 1);
		const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const back = light(getComputedStyle(document.body).backgroundColor);
	return Math.min(...["run", "slow", "lost", "fail", "off"].map(kind => Object.assign(document.createElement("b"), {className: "state " + kind}))
		.map(e => document.body.appendChild(e)).concat(...document.querySelectorAll("#sure p, #sure button"))
		.map(e => light(getComputedStyle(e).color)).map(l => (Math.max(l, back) + 0.05) / (Math.min(l, back) + 0.05)));
})()`
