package view

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/show/history"
	"crew/runner/steer/control"
)

// TestBrowser opens all pages in one browser, because starting it takes a second or two.
func TestBrowser(t *testing.T) {
	b := open(t)
	file := filepath.Join(t.TempDir(), "report.html")
	write := func(html string) string {
		crewtest.WriteFile(t, file, html, 0o600)
		return "file://" + file
	}
	if crewtest.Soaking() {
		search(t, b, write(many()))
	}
	widths(t, b, write(page(t, made(600, 3), "")))
	live(t, b)
	index(t, b)
	require.Nil(t, b.eval(`document.documentElement.dataset.canary`))
	require.Empty(t, b.errors)
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	return b.eval(fmt.Sprintf(`document.querySelector(%q).textContent`, selector)).(string)
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

func search(t *testing.T, b *browser, url string) {
	require.Positive(t, b.visit(url))
	require.Equal(t, "1 to 100 of 12,000", b.text("#count"))
	require.Nil(t, b.eval(`document.documentElement.dataset.canary`))

	b.visit(url + "#q=outcome:exit%20-key:net")
	require.Contains(t, b.text("#found"), "tasks found")
	require.EqualValues(t, 16, b.eval(`[...document.querySelectorAll("#tasks tbody tr")].filter(r => r.cells[1].textContent === "exit 2" && r.cells[3].textContent !== "net").length`))

	b.visit(url + "#t=0.218")
	require.Contains(t, b.text("#detail"), "signal 11")
	before := b.text("#spoken")
	b.key("ArrowRight")
	require.NotEqual(t, before, b.text("#spoken"))
	b.key("ArrowLeft")
	require.Equal(t, before, b.text("#spoken"))

	for range 12 {
		b.key("+")
	}
	b.key("0")
	b.key("Escape")
	require.Equal(t, true, b.eval(`document.querySelector("#detail").hidden`))

	// A failure that only the data has.
	b.visit(url + "#t=0.11818")
	b.eval(`[...document.querySelectorAll("#detail button")].find(b => b.textContent === "Show its output").click()`)
	require.Contains(t, b.text("#f0-11818[open]"), "error")
	require.NotContains(t, b.text("#f0-11818[open]"), "\x1b")
}

func widths(t *testing.T, b *browser, url string) {
	for _, width := range []int{400, 1600} {
		b.size(width, width == 400)
		b.visit(url)
		b.eval(`document.querySelectorAll("details").forEach(d => d.open = true); document.querySelectorAll("button.all").forEach(b => b.click())`)
		require.EqualValues(t, width, b.eval(`document.documentElement.scrollWidth`))
	}
	b.visit(url + "#q=outcome:exit%20task:100")
	require.Equal(t, "3 tasks found, 3 of them by an earlier attempt", b.text("#found"))
	b.eval(`document.querySelector("#theme").click()`)
	require.Equal(t, "dark", b.eval(`document.documentElement.dataset.theme`))
	require.EqualValues(t, 3, b.eval(`document.querySelector("#run").options.length`))
}

// live opens the page of a run that a fake server plays.
func live(t *testing.T, b *browser) {
	events, asked, streams, over := make(chan string, 8), make(chan string, 8), make(chan string, 8), make(chan struct{})
	start := time.Now().Add(-time.Minute)
	r := &history.Report{Title: "crew serve", Made: time.Now(), Runs: []history.Run{{Source: "queue", Start: start, End: time.Now()}}}
	r.Attempts = history.Attempts{
		Base: start, Lanes: []history.Lane{{Worker: 1}},
		List: []history.Attempt{{Task: 1, Number: 1, Start: start.Add(time.Second / 2).UnixNano(), Took: -1, Waited: -1, Command: "first"}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /x/{$}", func(w http.ResponseWriter, _ *http.Request) { _ = Page(w, r, "./a-7/") })
	mux.HandleFunc("GET /x/{place}/events", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		streams <- req.PathValue("place")
		defer func() { streams <- "gone" }()
		for {
			select {
			case e := <-events:
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
		_ = Parts(w, &now, "./a-7/")
	})
	mux.HandleFunc("POST /x/{place}/do", func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		asked <- req.Header.Get("Content-Type") + " " + string(body)
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
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(over)
	at := func(ms int) string {
		return time.Now().Add(time.Duration(ms) * time.Millisecond).Format(time.RFC3339Nano)
	}

	require.Positive(t, b.visit(server.URL+"/x/"))
	require.Contains(t, b.text("#tasks"), "running")
	events <- `event: status` + "\n" + `data: {"at":"` + at(0) + `","state":"running","since":"` + at(-60000) + `","elapsed":60,"total":9,"done":2,"failed":1,"running":2,"waiting":5,"outcomes":{},"rate":2,"eta":12,"workers":[{"worker":1},{"worker":2}],"tasks":[{"task":1,"attempt":1,"worker":1,"command":"first","duration":59.5,"state":"running"}],"waits":[{"by":"workers","text":"5 tasks wait for a worker","tasks":5}]}`
	events <- `event: lines` + "\n" + `data: [{"v":2,"event":"started","at":"` + at(0) + `","task":2,"attempt":1,"worker":2,"key":"db","command":"<script>` + canary + `</script>"},` +
		`{"v":2,"event":"blocked","at":"` + at(1) + `","blocking":{"by":"rate","text":"1 task waits for --rate","tasks":1}}]`
	events <- `event: lines` + "\n" + `id: 9` + "\n" + `data: [{"v":2,"event":"finished","at":"` + at(0) + `","task":1,"attempt":1,"worker":1,"outcome":"exit","exit":3,"start":"` + start.Add(time.Second/2).Format(time.RFC3339Nano) + `","duration":59.5},` +
		`{"v":2,"event":"finished","at":"` + at(0) + `","task":2,"attempt":1,"worker":2,"outcome":"ok","exit":0,"start":"` + at(0) + `","duration":0.25,"command":{"base64":"/w=="}}]`
	b.await(`document.querySelector("#tasks").textContent.includes("exit 3") && document.querySelector("#state").textContent === "running"`)
	require.Contains(t, b.text("#now"), "2 of 9")
	require.Contains(t, b.text("#waits"), "5 tasks wait for a worker")
	b.await(`document.querySelector("#f0-1 pre")?.checkVisibility()`)
	require.Contains(t, b.text("#f0-1"), "exit 3")
	require.Contains(t, b.text("#f0-1"), "disk full")
	require.Equal(t, true, b.eval(`document.querySelector("#f0-1").getBoundingClientRect().bottom < innerHeight`), "the first screen says why")
	require.Contains(t, b.text("#p-tables"), "1m0s", "the tables are live")
	require.Equal(t, "queue", b.text("h1"))
	require.Equal(t, "../../", b.eval(`document.querySelector(".brand").getAttribute("href")`))
	require.NotContains(t, b.text("body"), "oad again")
	b.await(`document.querySelector("#legend").textContent.includes("nothing started")`)
	require.Contains(t, b.text("#tasks"), "<script>")
	require.NotContains(t, b.text("#tasks"), "running")

	b.eval(`document.querySelector("#pause").click()`)
	require.Equal(t, `application/json {"op":"pause"}`, <-asked)
	b.await(`document.querySelector("#error").textContent === "<b>not now</b>"`)
	b.errors = slices.DeleteFunc(b.errors, func(e string) bool { return strings.Contains(e, "409 (Conflict)") }) // expected
	b.eval(`document.querySelector("#more").click()`)
	require.Equal(t, `application/json {"op":"resize","n":1,"relative":true}`, <-asked)
	b.await(`document.querySelector("#f0-1 button")`)
	b.eval(`[...document.querySelectorAll("#f0-1 button")].find(b => b.textContent === "Retry").click()`)
	require.Equal(t, `application/json {"op":"retry","tasks":[1]}`, <-asked)
	b.eval(`[...document.querySelectorAll("#f0-1 button")].find(b => b.textContent === "Output").click()`)
	b.await(`document.querySelector("#output").textContent === "task 1 writes\n" + ` + fmt.Sprintf("%q", hostile[1]) + ` + "\\x07"`)

	// A task is cancelled after one question, with the keys alone.
	b.eval(`document.querySelector("#running .danger").focus()`)
	b.key("Enter")
	require.Equal(t, "Cancel task 1?", b.text("#sure[open] p"))
	b.key("Escape")
	require.Equal(t, true, b.eval(`!document.querySelector("#sure").open && document.activeElement.ariaLabel === "Cancel task 1"`))
	b.key("Enter")
	b.eval(`document.querySelector("#yes").focus()`)
	b.key("Enter")
	require.Equal(t, `application/json {"op":"cancel","tasks":[1]}`, <-asked)
	for _, theme := range []string{"light", "dark"} {
		b.eval(fmt.Sprintf(`document.documentElement.dataset.theme = %q; document.querySelector("#sure").showModal()`, theme))
		require.GreaterOrEqual(t, b.eval(contrast), 4.5)
		b.eval(`document.querySelector("#sure").close()`)
	}

	require.Equal(t, "a-7", crewtest.Receive(t, streams, "a stream"))
	hide := `Object.defineProperty(document, "hidden", {configurable: true, value: %v}); document.dispatchEvent(new Event("visibilitychange"))`
	b.eval(fmt.Sprintf(hide, true))
	require.Equal(t, "gone", crewtest.Receive(t, streams, "a stream"), "a page that nobody sees takes no connection")
	b.eval(fmt.Sprintf(hide, false))
	require.Equal(t, "a-9", crewtest.Receive(t, streams, "a stream"), "it goes on where it was")

	events <- `event: over` + "\n" + `data: "killed"`
	b.await(`document.querySelector("#state").textContent === "killed" && document.querySelector("#stop").disabled`)
	b.leave()
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

// index opens the list of runs and checks that it fits small windows and updates itself.
func index(t *testing.T, b *browser) {
	runs := make(chan []Listed, 1)
	first, total := Listed{Hello: control.Hello{PID: 7, Name: "nightly-build-of-everything", Command: task.Bytes(hostile[0]), State: "running", Since: time.Now()}}, int64(8)
	first.Total = &total
	runs <- []Listed{first}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		list := <-runs
		runs <- list
		_ = Index(w, list)
	}))
	defer server.Close()
	for _, width := range []int{400, 1000} {
		b.size(width, false)
		b.visit(server.URL)
		require.EqualValues(t, width, b.eval(`document.documentElement.scrollWidth`))
		require.Less(t, b.eval(`document.querySelector(".runs a").getBoundingClientRect().height`), 30.0, "the name is not broken")
	}
	b.eval(`document.querySelector(".runs a").focus(); window.same = true`)
	<-runs
	first.State, first.Done, first.Failed = "paused", 4, 1
	runs <- []Listed{first}
	b.await(`document.querySelector(".state").textContent === "paused"`)
	require.Contains(t, b.text(".runs"), "4 of 8 done, 1 failed")
	require.Equal(t, true, b.eval(`window.same && document.activeElement.matches(".runs a")`), "the page was not loaded again")
	b.leave()
}
