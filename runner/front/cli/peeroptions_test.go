package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestPeerOptions checks that each option of xargs and parallel is accepted, or that the error says what to do
// instead.
func TestPeerOptions(t *testing.T) {
	for _, program := range []string{"xargs", "parallel"} {
		for line := range strings.Lines(crewtest.ReadFile(t, "testdata/options_"+program+".txt")) {
			spelled := strings.TrimSpace(line)
			if strings.HasPrefix(spelled, "#") {
				continue
			}
			name := strings.TrimLeft(spelled, "-")
			o := long(name)
			if !strings.HasPrefix(spelled, "--") {
				o = commands[0].short(name[0])
			}
			if hint := lookupPeer(name, meansAdvice); hint != "" {
				_, err := commands[0].split([]string{spelled})
				require.EqualError(t, err, "unknown option "+spelled+": "+hint)
			} else {
				require.NotNil(t, o, "%s's %s", program, spelled)
			}
		}
	}
}

// TestPeerOptionsTable checks that each spelling is in one row and is not an option of crew, and that hints name
// options that exist.
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
	for line := range strings.Lines(peers) {
		names, says, spelled := strings.Cut(line, meansOption)
		if !spelled {
			names, says, _ = strings.Cut(line, meansAdvice)
		}
		if says == "" {
			continue
		}
		for name := range strings.FieldsSeq(names) {
			if !strings.Contains(name, "=") {
				name = strings.ReplaceAll(name, "-", "")
			}
			require.False(t, seen[name], name)
			seen[name] = true
		}
		if name, _, _ := strings.Cut(strings.TrimSpace(says), "="); spelled {
			require.NotNil(t, long(name), line)
			continue
		}
		for _, m := range regexp.MustCompile(`(^|crew | )--([a-z]+(-[a-z]+)*)`).FindAllStringSubmatch(says, -1) {
			require.NotNil(t, long(m[2]), line)
			require.Empty(t, lookupPeer(m[2], meansOption)+lookupPeer(m[2], meansAdvice), line)
		}
	}
}

// TestManPageHasThePeersSpellings checks that the man page lists the accepted spellings.
func TestManPageHasThePeersSpellings(t *testing.T) {
	_, text, found := strings.Cut(manSection(t, "crew-migrate(7)", ".Ss From both xargs and parallel"), "These spellings of theirs are accepted:\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, ".Pp\n")
	want := map[string]string{}
	for line := range strings.Lines(peers) {
		if names, says, found := strings.Cut(strings.TrimSpace(line), meansOption); found {
			for name := range strings.FieldsSeq(names) {
				want[name] = says
			}
		}
	}
	got := map[string]string{}
	list, _, _ := strings.Cut(text, "and every name")
	for entry := range strings.SplitSeq(list, ";\n") {
		spellings, is, found := strings.Cut(entry, "\nfor\n.Fl -")
		if !found {
			continue
		}
		is = strings.NewReplacer(" Cm ", "=", " Ql \\et", `=\t`, " ", "").Replace(is)
		if o := long(is); o != nil && o.means != "" {
			is = o.means
		}
		for _, m := range regexp.MustCompile(`(?:Fl -?|, -?)([\w-]+)`).FindAllStringSubmatch(spellings, -1) {
			got[m[1]] = is
		}
	}
	require.Equal(t, want, got)
}
