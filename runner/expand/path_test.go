package expand

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPathForms(t *testing.T) {
	for _, c := range []struct{ in, stem, base, dir, basedStem string }{
		{"a.txt", "a", "a.txt", ".", "a"},
		{"x.tar.gz", "x.tar", "x.tar.gz", ".", "x.tar"},
		{"d/x.c", "d/x", "x.c", "d", "x"},
		{"/x.c", "/x", "x.c", "/", "x"},
		{"a.d/b", "a.d/b", "b", "a.d", "b"},
		{".bashrc", ".bashrc", ".bashrc", ".", ".bashrc"},
		{"a/.b", "a/.b", ".b", "a", ".b"},
		{".a.b", ".a", ".a.b", ".", ".a"},
		{"..a", "..a", "..a", ".", "..a"},
		{"foo.", "foo", "foo.", ".", "foo"},
		{".", ".", ".", ".", "."},
		{"..", "..", "..", ".", ".."},
		{"...", "...", "...", ".", "..."},
		{"a/..", "a/..", "..", "a", ".."},
		{"dir/", "dir", "dir", ".", "dir"},
		{"a/b.c/", "a/b", "b.c", "a", "b"},
		{"a/b//", "a/b", "b", "a", "b"},
		{"/", "/", "/", "/", "/"},
		{"//", "//", "/", "/", "/"},
		{"//a", "//a", "a", "/", "a"},
		{"a//b", "a//b", "b", "a", "b"},
		{"", "", "", ".", ""},
		{"n\nl.x\ny", "n\nl", "n\nl.x\ny", ".", "n\nl"},
		{"\xff/\xfe.\x80", "\xff/\xfe", "\xfe.\x80", "\xff", "\xfe"},
	} {
		require.Equal(t, c.stem, stem.of(c.in), "{.} of %q", c.in)
		require.Equal(t, c.base, base.of(c.in), "{/} of %q", c.in)
		require.Equal(t, c.dir, dir.of(c.in), "{//} of %q", c.in)
		require.Equal(t, c.basedStem, basedStem.of(c.in), "{/.} of %q", c.in)
		require.Equal(t, c.in, whole.of(c.in))
	}
}

// TestPathTools compares {/} and {//} with basename(1) and dirname(1).
func TestPathTools(t *testing.T) {
	for _, s := range []string{"a", "a/", "a//", "/", "//", "///", "", ".", "..", "a/b", "/a", "//a//b//", "./", "../x", "a/./b/.", " ", "-n", "a\nb/"} {
		for tool, f := range map[string]form{"basename": base, "dirname": dir} {
			out, err := exec.Command(tool, "--", s).Output()
			if err != nil {
				t.Skipf("%s: %v", tool, err)
			}
			require.Equal(t, strings.TrimSuffix(string(out), "\n"), f.of(s), "%s of %q", tool, s)
		}
	}
}
