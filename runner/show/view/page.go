// Package view renders a report as a self-contained HTML page that needs no network, and as a trace
// for Perfetto and chrome://tracing.
//
// Text of tasks is hostile. It enters a page only through the escaping of html/template and in the
// compressed block of data, which the script decodes and inserts as text, never as HTML. The page's
// content security policy allows its own script and style by their hashes.
package view

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"
	"slices"

	"crew/runner/show/history"
)

//go:embed *.html *.css *.js
var files embed.FS

var pages = template.Must(template.New("").Funcs(funcs).ParseFS(files, "*.html"))

// frame holds the parts that all pages share.
type frame struct {
	Head   string // the title in the browser's tab
	CSP    string
	Style  template.CSS
	Script template.JS
}

// newFrame returns the frame of a page with the given scripts. A live page may connect to its own
// server.
func newFrame(title string, live bool, scripts ...string) frame {
	style, script := text("page.css"), ""
	for _, name := range scripts {
		script += text(name)
	}
	csp := "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(style)
	if script != "" {
		csp += "; script-src " + hash(script)
	}
	if live {
		csp += "; connect-src 'self'"
	}
	return frame{Head: title, CSP: csp, Style: template.CSS(style), Script: template.JS(script)} //nolint:gosec // these are our own files
}

func text(name string) string {
	b, _ := files.ReadFile(name) // never fails for an embedded file
	return string(b)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// content is what a page shows.
type content struct {
	frame
	*history.Report
	Live string // see Page
	Data template.HTML
}

func newContent(r *history.Report, live string) content {
	shown := *r
	for _, g := range []*history.Groups{&shown.Keys, &shown.Commands} {
		if !isRepeated(*g) {
			*g = history.Groups{}
		}
	}
	if live != "" { // the latest first
		shown.Failed.List = slices.Clone(r.Failed.List)
		slices.Reverse(shown.Failed.List)
	}
	return content{Report: &shown, Live: live}
}

// Page writes the page of a report. live is "" for a file. For a live page it is the URL, relative to
// the page and ending with a slash, under which the server answers "events", "parts", "do" and "log".
func Page(w io.Writer, r *history.Report, live string) error {
	title := visible(r.Title, 80) + " · crew report"
	scripts := []string{"theme.js", "page.js", "timeline.js", "tasks.js"}
	if live != "" {
		title, scripts = visible(runName(r), 80)+" · crew", append(scripts, "queue.js", "live.js")
	}
	c := newContent(r, live)
	c.frame = newFrame(title, live != "", append(scripts, "start.js")...)
	c.Data = template.HTML(pack(r)) //nolint:gosec // base64
	return pages.ExecuteTemplate(w, "page.html", c)
}

// Parts writes the parts of a live page that the server renders: failures, charts and tables. The page
// asks for them while the run goes on.
func Parts(w io.Writer, r *history.Report) error {
	return pages.ExecuteTemplate(w, "parts", newContent(r, "./"))
}
