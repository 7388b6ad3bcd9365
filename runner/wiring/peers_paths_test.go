package wiring

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// names are components of paths, awkward ones among them.
var names = []string{
	"a", "a.b", "a.tar.gz", "foo.", "a..b", "a. b", ".bashrc", ".b.c", "..", ".", "...", "..a",
	" ", " a ", "a b.c d", "\t", "a\n", "n\nl.x\ny.z", "\r", "\x01\x7f.\x1b",
	"'", "q'q.'", `"`, `d"q."x"`, `\`, `a\nb.\`, "$x", "$(id).$HOME", "`id`", "${x}.y", "!", "!!.x",
	"*", "?.[a-z]", "~", "~root", "a~.b~", "#", "#c.d", "a#b", "=", "a=b.c=d", "=x", "%s", "%d.%%",
	"-n", "--", "-e.x", "+", "a;b", "a&b", "a|b", "(a)", "<a", ">a.b", "{", "}", "{a,b}.{c..d}", "a,b", "@", "^", ":::",
	"{}", "{.}", "{1}", "{#}", "{foo}", "x{}y.{}", "é.ü", "日本.語", "\xff.\xfe", "\xc3", "a\x80.\x81b",
}

// paths are the names by themselves and below other directories, and some put
// together by chance, the same in each run.
func paths() []string {
	list := slices.Concat(names, []string{"/", "//", "///", "a//b", "a//b.c//d.e", "./.a", "../..", "/..", "/."})
	for _, n := range names {
		list = append(list, "dir.d/"+n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 80 {
		parts := make([]string, 1+r.IntN(4))
		for i := range parts {
			parts[i] = names[r.IntN(len(names))]
		}
		list = append(list, strings.Join(parts, strings.Repeat("/", 1+r.IntN(2))))
	}
	return list
}

// agreed says whether crew and parallel have the same parts of p: see
// differences.
func agreed(p string) bool {
	dir, _ := filepath.Split(p)
	return !strings.HasSuffix(p, "/") && !strings.Contains(dir, "\n")
}

// null is records with a NUL behind each.
func null(records []string) string {
	return strings.Join(records, "\x00") + "\x00"
}

// comparePaths compares every form of {} for all paths.
func comparePaths(t *testing.T, b *bench) {
	var all, plain []string
	for _, p := range paths() {
		if !agreed(p) {
			continue
		}
		all = append(all, p)
		if _, base := filepath.Split(p); base[0] != '.' {
			plain = append(plain, p)
		}
	}
	got := b.asParallel(t, trial{options: []string{"-0"}, input: null(all), words: "{} x{}y {/} {//} {#} -{/}-{#}"})
	require.Len(t, got, len(all))
	got = b.asParallel(t, trial{options: []string{"-0"}, input: null(plain), words: "{.} {/.} {1.} {1/} {1//} {1/.} {-1} {.}.png"})
	require.Len(t, got, len(plain))
}

// compareQuoting compares values in the places where parallel quotes them too:
// bare, and with text around them.
func compareQuoting(t *testing.T, b *bench) {
	r := rand.New(rand.NewPCG(3, 4))
	const alphabet = "ab \t'\"\\$`*?[]~#=%&|;<>(){}!^-+,.:@/\x01\x7f\xc3\xa9\xff"
	var values []string
	for range 100 {
		v := make([]byte, 1+r.IntN(8))
		for i := range v {
			v[i] = alphabet[r.IntN(len(alphabet))]
		}
		values = append(values, string(v))
	}
	b.asParallel(t, trial{input: strings.Join(values, "\n"), words: "{} a{}b={}, {#}"})
	b.asParallel(t, trial{options: []string{"-0"}, input: strings.Join(values, "\n\x00"), words: "{} {1}{1}"})
	b.asParallel(t, trial{options: []string{"-k"}, words: "{} --x={}", values: slices.Concat([]string{":::"}, values)})
}
