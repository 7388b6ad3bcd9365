package view

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/show/history"
)

// fed is a fake server of a run that others feed.
type fed struct {
	*httptest.Server
	events chan string

	mu    sync.Mutex
	queue string   // the waiting tasks, as JSON
	asked int      // how often the page asked for them
	did   []string // other requests
}

func newFed(t *testing.T) *fed {
	f := &fed{events: make(chan string, 8)}
	now := time.Now()
	r := &history.Report{Title: "crew serve", Made: now, Runs: []history.Run{{Source: "queue", Start: now, End: now}}, Attempts: history.Attempts{Base: now}}
	over, mux := make(chan struct{}), http.NewServeMux()
	mux.HandleFunc("GET /x/{$}", func(w http.ResponseWriter, _ *http.Request) { _ = Page(w, r, "./a-7/") })
	mux.HandleFunc("GET /x/{place}/parts", func(w http.ResponseWriter, _ *http.Request) { _ = Parts(w, r, "./a-7/") })
	mux.HandleFunc("GET /x/{place}/events", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			w.(http.Flusher).Flush()
			select {
			case e := <-f.events:
				fmt.Fprint(w, e)
			case <-over:
				return
			case <-req.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /x/{place}/do", func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		f.mu.Lock()
		defer f.mu.Unlock()
		if string(body) == `{"op":"explain","only":"waiting","n":200}` {
			f.asked++
			fmt.Fprintf(w, `{"v":2,"end":true,"wheres":[%s]}`, f.queue)
			return
		}
		f.did = append(f.did, string(body))
		fmt.Fprint(w, `{"v":2,"end":true}`)
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		close(over)
		f.Close()
	})
	return f
}

// wait sets the waiting tasks, and sends a status with a number of waiting tasks and of edits.
func (f *fed) wait(waiting, edits int, tasks ...string) {
	f.mu.Lock()
	f.queue = strings.Join(tasks, ",")
	f.mu.Unlock()
	f.events <- "event: queue\ndata: null\n\n" + fmt.Sprintf(`event: status`+"\n"+`data: {"at":%q,"state":"running","since":%[1]q,"elapsed":60,"total":null,"done":0,"failed":0,"running":0,`+
		`"waiting":%d,"edits":%d,"outcomes":{},"rate":2,"eta":null,"workers":[{"worker":1}],"tasks":[],"waits":[]}`+"\n\n", time.Now().Format(time.RFC3339Nano), waiting, edits)
}

// last returns how often the page asked for the queue, and the last other request.
func (f *fed) last() (asked int, did string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.did) > 0 {
		did = f.did[len(f.did)-1]
	}
	return f.asked, did
}

func waits(id int, by, text, more string) string {
	return fmt.Sprintf(`{"task":%d,"state":"waiting","command":"work %[1]d","blocking":{"by":%q,"text":%q,"tasks":1}%s}`, id, by, text, more)
}

// TestQueue checks the list of waiting tasks: its words, its buttons with the keys alone, the focus, its
// width, and how often the page asks for it.
func TestQueue(t *testing.T) {
	b, f := open(t), newFed(t)
	b.size(400, true)
	require.Positive(t, b.visit(f.URL+"/x/"))
	b.eval(`window.asked = [];
		const send = window.fetch;
		window.fetch = (url, init) => {
			if (init?.body?.includes("explain")) asked.push(performance.now());
			return send(url, init);
		}`)
	require.Equal(t, true, b.eval(`document.querySelector("#queue").hidden`), "nobody feeds it, as far as is known")
	text := func(selector string) string {
		t.Helper()
		return b.eval(fmt.Sprintf(`text(%q)`, selector)).(string)
	}
	row := func(n int) string {
		t.Helper()
		return text(fmt.Sprintf("#queued li:nth-child(%d)", n))
	}
	first := waits(1, "workers", "1 task of key a waits for b waits for a worker", `,"priority":5,"note":"for <b>"`)
	long := strings.Replace(waits(2, "after", "1 task waits for task 3", ""), "work 2", strings.Repeat("long ", 100), 1)
	later := waits(3, "time", "", "")
	later = strings.Replace(later, `"tasks":1`, `"until":"2031-01-31T06:00:00Z"`, 1)
	var rest []string
	for id := 5; id <= 200; id++ {
		rest = append(rest, waits(id, "hold", "", ""))
	}
	f.wait(1234, 0, append([]string{first, long, later, waits(4, "hold", "", "")}, rest...)...)
	b.await(`document.querySelectorAll("#queued li").length === 200`)
	require.Equal(t, "Task 1[for <b>]  work 1for a worker · priority 5HoldStart nextCancel", row(1))
	require.Contains(t, row(2), "for task 3Hold")
	require.Regexp(t, `until 2031-01-31 \d\d:\d\dHold`, row(3))
	require.Contains(t, row(4), "work 4heldReleaseStart next")
	require.Equal(t, "and 1,034 more", text("#queue-rest"))
	require.EqualValues(t, 400, b.eval(`document.documentElement.scrollWidth`))
	require.Equal(t, true, b.eval(`document.querySelector("#queued code").getBoundingClientRect().height === document.querySelector("#queued li:nth-child(2) code").getBoundingClientRect().height`), "a command takes one line")

	// The keys hold, release and move tasks. The focus stays on a task that moves or gets another button.
	use := func(selector, label, did string) {
		t.Helper()
		b.eval(fmt.Sprintf(`document.querySelector(%q).focus()`, selector))
		require.Equal(t, label, b.eval(`document.activeElement.ariaLabel`))
		b.key("Enter")
		if strings.HasPrefix(label, "Cancel") {
			require.Equal(t, label+"?", text("#sure[open] p"))
			b.eval(`document.querySelector("#yes").focus()`)
			b.key("Enter")
		}
		b.await(`document.querySelector("#said").textContent !== ""`)
		_, last := f.last()
		require.Equal(t, did, last)
	}
	use("#queued li:nth-child(4) button", "Release task 4", `{"op":"release","tasks":[4]}`)
	use("#queued li:nth-child(1) button", "Hold task 1", `{"op":"hold","tasks":[1]}`)
	use("#queued li:nth-child(2) .danger", "Cancel task 2", `{"op":"cancel","tasks":[2]}`)
	use("#queued li:nth-child(3) button:nth-child(2)", "Start task 3 next", `{"op":"move","tasks":[3]}`)
	b.eval(`window.was = document.activeElement`)
	f.wait(3, 1, later, waits(1, "hold", "", ""), waits(4, "workers", "1 task waits for a worker", ""))
	b.await(`document.querySelectorAll("#queued li").length === 3`)
	require.Equal(t, true, b.eval(`document.activeElement === window.was && window.was.closest("li") === document.querySelector("#queued li")`))
	require.Contains(t, row(2), "heldRelease")
	require.Equal(t, "", text("#queue-rest"))
	f.wait(2, 2, waits(1, "hold", "", ""), waits(4, "workers", "1 task waits for a worker", ""))
	b.await(`document.activeElement.ariaLabel === "Start task 1 next"`)

	// Without a change or in a hidden page, it does not ask.
	b.await(`performance.now() - asked.at(-1) > 2500`)
	asked, _ := f.last()
	f.wait(2, 2, waits(1, "hold", "", ""))
	hide := `Object.defineProperty(document, "hidden", {configurable: true, value: %v}); document.dispatchEvent(new Event("visibilitychange"))`
	b.eval(`new Promise(done => setTimeout(done, 2500))`)
	again, _ := f.last()
	require.Equal(t, asked, again)
	require.Greater(t, b.eval(`Math.min(...asked.slice(1).map((at, i) => at - asked[i]))`), 1950.0, "milliseconds between two")
	b.eval(fmt.Sprintf(hide, true) + `; document.querySelector("#queued button").click(); new Promise(done => setTimeout(done, 2500))`)
	require.Contains(t, row(2), "work 4", "it has not asked")
	b.eval(fmt.Sprintf(hide, false))
	f.wait(0, 3)
	b.await(`document.querySelector("#queue-rest").textContent === "Nothing waits."`)
	require.Equal(t, "h-queue", b.eval(`document.activeElement.id`))
	f.events <- "event: over\ndata: \"ended\"\n\n"
	b.await(`document.querySelector("#queue").hidden`)
	b.leave()
	require.Empty(t, b.errors)
}
