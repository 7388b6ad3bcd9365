package view

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium, controlled by the DevTools protocol over a pipe.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	last    int
	session string
	errors  []string // errors that pages logged
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// open starts a browser with an empty page. It skips the test if Chromium is not installed.
func open(t *testing.T) *browser {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no chromium")
	}
	in, to, err := os.Pipe()
	require.NoError(t, err)
	from, out, err := os.Pipe()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "crew-view")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // processes that the browser leaves running may still write to it
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	require.NoError(t, cmd.Start())
	in.Close()
	out.Close()
	b := &browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	// A browser that hangs fails the test instead of the whole run.
	hung := time.AfterFunc(8*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		b.session = ""
		b.send("Browser.close", nil)
		_ = cmd.Wait()
		hung.Stop()
		to.Close()
		from.Close()
	})
	var target struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.call("Target.getTargets", nil, &target)
	var attached struct{ SessionID string }
	for _, i := range target.TargetInfos {
		if i.Type == "page" {
			b.call("Target.attachToTarget", map[string]any{"targetId": i.TargetID, "flatten": true}, &attached)
		}
	}
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) send(method string, params any) int {
	b.last++
	m := map[string]any{"id": b.last, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	require.NoError(b.t, err)
	_, _ = b.to.Write(append(text, 0))
	return b.last
}

// call sends a command and waits for its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	id := b.send(method, params)
	for {
		m := b.next()
		if m.ID != id {
			continue
		}
		require.Empty(b.t, string(m.Error), method)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, result))
		}
		return
	}
}

// next returns the next message and collects the errors that pages log.
func (b *browser) next() *message {
	text, err := b.from.ReadBytes(0)
	if err != nil && b.session == "" {
		b.t.Skip("chromium does not start here")
	}
	require.NoError(b.t, err, "the browser is gone")
	m := &message{}
	require.NoError(b.t, json.Unmarshal(text[:len(text)-1], m))
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled":
		b.errors = append(b.errors, fmt.Sprintf("%s %.500s", m.Method, m.Params))
	}
	return m
}

// eval returns the value of statements of JavaScript, which may be a promise. In them, $ finds an element
// and text returns the text of one.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": `{ const $ = s => document.querySelector(s), text = s => $(s).textContent; ` + expression + ` }`, "awaitPromise": true, "returnByValue": true}, &got)
	require.Empty(b.t, string(got.ExceptionDetails), expression)
	return got.Result.Value
}

// visit opens a URL, waits until the page's script is ready, and returns after how many milliseconds
// that was.
func (b *browser) visit(url string) float64 {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": "about:blank"}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	return b.eval(`new Promise(done => {
		const look = () => document.documentElement?.dataset.ready ? done(Number(document.documentElement.dataset.ready)) :
			document.querySelector("#trouble:not([hidden])") ? done(-1) : setTimeout(look, 20);
		look();
	})`).(float64)
}

// leave leaves the page, so that it asks its server for nothing more.
func (b *browser) leave() { b.call("Page.navigate", map[string]any{"url": "about:blank"}, nil) }

// size sets the size of the window and its theme.
func (b *browser) size(width int, dark bool) {
	theme := "light"
	if dark {
		theme = "dark"
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": theme}}}, nil)
}

// key presses a key.
func (b *browser) key(name string) {
	codes, texts := map[string]int{"Enter": 13, "Escape": 27}, map[string]string{"Enter": "\r"}
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": name, "windowsVirtualKeyCode": codes[name], "text": texts[name]}, nil)
	}
}
