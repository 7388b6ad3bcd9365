package stories

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

const recording = "man/crew.svg"

// TestRecording makes the README's picture again, and checks that it shows the same words.
func TestRecording(t *testing.T) {
	crewtest.SoakOnly(t)
	t.Parallel()
	crewtest.Needs(t, "bash")
	then, err := os.ReadFile(recording)
	require.NoError(t, err)
	// On a busy machine the picture can differ by chance. Wrong words differ every time.
	var made []string
	for range 3 {
		cmd := exec.CommandContext(t.Context(), "go", "run", "./testdata/recording")
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		now, err := cmd.Output()
		if made = words(t, now); slices.Equal(words(t, then), made) {
			return
		}
		t.Logf("%v %s", err, &complaint)
	}
	require.Equal(t, words(t, then), made, "go run ./testdata/recording > %s makes it again", recording)
}

// measured matches the texts that differ between two recordings of the same run, and says what to keep
// of them.
var measured = []struct {
	pattern *regexp.Regexp
	kept    string
}{
	{regexp.MustCompile(`, \d[\d.]*/s|\d\d:\d\d:\d\d`), ""},
	{regexp.MustCompile(`(throughput|max) \d.*`), "$1"},
	{regexp.MustCompile(`(longest: \S+ \S+?),? .*`), "$1"}, // the others are named once they have run for a second
	{regexp.MustCompile(`(after|in|longest:|eta|oldest) \d[\dhms.]*`), "$1 D"},
	{regexp.MustCompile(`(eta|oldest) D`), "rest"},
	{regexp.MustCompile(`\bpid \d+|^\[1\] \d+`), "pid"},
}

// words returns the texts of a recording in the order of their first appearance; texts of the same
// moment are sorted. Times, rates, sizes, and other single numbers are left out.
func words(t *testing.T, svg []byte) (list []string) {
	seen := map[string]string{} // the moment at which each group appears
	for _, m := range regexp.MustCompile(`@keyframes k(\d+)\{(0%\{visibility:visible|0%\{visibility:hidden\}[\d.]+)`).FindAllSubmatch(svg, -1) {
		seen["k"+string(m[1])] = string(m[2])
	}
	moment, from := "", 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		switch start, _ := token.(xml.StartElement); start.Name.Local {
		case "g":
			if now := seen[strings.Fields(start.Attr[0].Value)[0]]; now != moment {
				require.NotEmpty(t, now)
				moment, from = now, len(list)
			}
		case "text":
			var text string
			require.NoError(t, d.DecodeElement(&text, &start))
			for _, m := range measured {
				text = m.pattern.ReplaceAllString(text, m.kept)
			}
			if regexp.MustCompile(`[a-z]{2}|[A-Z]{3}`).MatchString(text) && !slices.Contains(list, text) {
				list = append(list, text)
				slices.Sort(list[from:])
			}
		}
	}
}

// TestRecordingIsTame checks that the picture runs and fetches nothing, shows the important parts of
// crew's output, and describes itself in words.
func TestRecordingIsTame(t *testing.T) {
	svg, err := os.ReadFile(recording)
	require.NoError(t, err)
	require.Less(t, len(svg), 200_000)
	require.NotRegexp(t, `(?i)url\(|@import|@font-face|javascript:|<!|<\?`, string(svg))
	var elements []string
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		e, is := token.(xml.StartElement)
		if !is {
			continue
		}
		elements = append(elements, e.Name.Local)
		for _, a := range e.Attr {
			require.NotRegexp(t, `(?i)^(on.*|href|src|style)$`, a.Name.Local)
		}
		if e.Name.Local == "svg" {
			require.Contains(t, e.Attr, xml.Attr{Name: xml.Name{Local: "role"}, Value: "img"})
		}
	}
	require.Equal(t, []string{"svg", "title", "desc", "style"}, elements[:4])
	slices.Sort(elements)
	require.Equal(t, []string{"circle", "desc", "g", "rect", "style", "svg", "text", "title"}, slices.Compact(elements))
	require.Contains(t, string(svg), "prefers-reduced-motion")
	shown := strings.Join(words(t, svg), "\n")
	for _, part := range []string{"rest", "longest", "failed: exit 1", "run it again: crew"} {
		require.Regexp(t, part, shown)
	}
}
