package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each option of xargs and of parallel is accepted, or answered with what to do
// instead.
func TestPeerOptions(t *testing.T) {
	for _, program := range []string{"xargs", "parallel"} {
		list, err := os.ReadFile("testdata/options_" + program + ".txt")
		require.NoError(t, err)
		for line := range strings.Lines(string(list)) {
			spelled := strings.TrimSpace(line)
			if strings.HasPrefix(spelled, "#") {
				continue
			}
			name := strings.TrimLeft(spelled, "-")
			o := long(name)
			if !strings.HasPrefix(spelled, "--") {
				o = commands[0].short(name[0])
			}
			if hint := peer(name, advice[:]); hint != "" {
				_, err := commands[0].split([]string{spelled})
				require.EqualError(t, err, "unknown option "+spelled+": "+hint)
			} else {
				require.NotNil(t, o, "%s's %s", program, spelled)
			}
		}
	}
}

// A spelling is in one row, is not crew's own, and hints name options that exist.
func TestPeerOptionsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range options() {
		if !o.ofRuns() {
			continue
		}
		for _, letter := range o.short {
			seen[string(letter)] = true
		}
		seen[strings.ReplaceAll(o.name, "-", "")] = true
	}
	for _, p := range slices.Concat(spellings[:], advice[:]) {
		for name := range strings.FieldsSeq(p.names) {
			name = strings.ReplaceAll(name, "-", "")
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	for _, p := range spellings {
		name, _, _ := strings.Cut(p.says, "=")
		require.NotNil(t, long(name), p.names)
	}
	for _, p := range advice {
		for _, m := range regexp.MustCompile(`(^|crew | )--([a-z]+(-[a-z]+)*)`).FindAllStringSubmatch(p.says, -1) {
			require.NotNil(t, long(m[2]), p.says)
			require.Empty(t, peer(m[2], spellings[:])+peer(m[2], advice[:]), p.says)
		}
	}
}

// The man page lists what is accepted.
func TestManPageHasThePeersSpellings(t *testing.T) {
	_, text, found := strings.Cut(manSection(t, "crew(7)", ".Ss From both xargs and parallel"), "These spellings of theirs are accepted:\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, ".Pp\n")
	want := map[string]string{}
	for _, p := range spellings {
		for name := range strings.FieldsSeq(p.names) {
			want[name] = p.says
		}
	}
	got := map[string]string{}
	list, _, _ := strings.Cut(text, "and every name")
	for entry := range strings.SplitSeq(list, ";\n") {
		spellings, means, found := strings.Cut(entry, "\nfor\n.Fl -")
		if !found {
			continue
		}
		means = strings.NewReplacer(" Cm ", "=", " Ql \\et", "=\t", " ", "").Replace(means)
		if o := long(means); o != nil && o.means != "" {
			means = o.means
		}
		for _, m := range regexp.MustCompile(`(?:Fl -?|, -?)([\w-]+)`).FindAllStringSubmatch(spellings, -1) {
			got[m[1]] = means
		}
	}
	require.Equal(t, want, got)
}
