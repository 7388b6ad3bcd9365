package wiring

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// delimiters are as typed, and as the byte meant.
var delimiters = [][2]string{
	{`\n`, "\n"}, {`\0`, "\x00"}, {`\t`, "\t"}, {",", ","}, {";", ";"}, {" ", " "}, {".", "."}, {"|", "|"}, {"x", "x"}, {`\054`, ","},
}

// endings stand behind the last record, in place of a delimiter or with it.
func endings(delim string) []string { return []string{"", delim, delim + delim, "\n", delim + "\n"} }

// records are n pieces of input of a few bytes, some of them empty. None holds
// the delimiter.
func records(r *rand.Rand, n int, delim string) []string {
	const alphabet = "ab'\"\\ \t,;.|$#x\r\n\x01\xff\xc3"
	list := make([]string, n)
	for i := range list {
		v := make([]byte, r.IntN(6))
		for j := range v {
			v[j] = alphabet[r.IntN(len(alphabet))]
		}
		list[i] = strings.ReplaceAll(string(v), delim, "")
	}
	return list
}

// compareDelimitersXargs compares how -d and -0 cut the input. For -d, one
// command gets all records of an input.
func compareDelimitersXargs(t *testing.T, b *bench) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, d := range slices.Concat(delimiters, [][2]string{{`\x2c`, ","}, {`\\`, `\`}, {`\a`, "\a"}}) {
		ends := endings(d[1])
		r.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for _, end := range slices.Concat(ends, ends)[:b.most(2*len(ends))] {
			in := strings.Join(records(r, 1+r.IntN(6), d[1]), d[1]) + end
			b.asXargs(t, trial{options: []string{"-d", d[0], "-n9"}, input: in})
		}
	}
	for _, in := range []string{"", "\x00", "a", "a\x00", "a\x00\x00", "\x00a", "a\nb\x00'c \" \\\x00"} {
		b.asXargs(t, trial{options: []string{"-0", "-n1"}, input: in})
	}
	b.asXargs(t, trial{options: []string{"-d,", "-n1", "-a", file(t, "a,b\n,c")}, input: "not read"})
	// Words without blanks, quotes and backslashes need no -d.
	b.asXargs(t, trial{options: []string{"-n1"}, input: "a\nb=c\n#d\n*\n~\n$x\n\xff"})
	b.asXargs(t, trial{options: []string{"-n1", "-E", "END"}, input: "a\nENDS\nEND\nb\n"})
	b.asXargs(t, trial{options: []string{"-n1", "-E", "END"}, input: "END\nb\n"})
}

// compareDelimitersParallel compares how -d and -0 cut the input, and strings
// of several bytes, which xargs does not take.
func compareDelimitersParallel(t *testing.T, b *bench) {
	r := rand.New(rand.NewPCG(7, 8))
	several := [][2]string{{"::", "::"}, {"→", "→"}, {`-\n-`, "-\n-"}, {"<br>", "<br>"}}
	for i, d := range slices.Concat(delimiters, several) {
		all := records(r, 24, d[1])
		end := endings(d[1])[i%5]
		b.asParallel(t, trial{options: []string{"-d", d[0]}, input: strings.Join(all, d[1]) + end})
	}
}

// compareRecords compares what is a record and what is none.
func compareRecords(t *testing.T, b *bench) {
	inputs := []string{"\n\na\n\n\nb\n", " a\n b \n\t\n", "a\r\nb\r\n", "# a\n#\n", "", "\n", "a", "a\n\n\nb\n\n", "\n\na"}
	for _, in := range inputs[:b.most(len(inputs))] {
		b.asParallel(t, trial{input: in})
	}
	b.asParallel(t, trial{options: []string{"-r"}, input: "a\n\nb\n\n\nc"})
	require.Equal(t, [][]string{{"a"}, {"b"}}, b.asParallel(t, trial{options: []string{"-E", "END"}, input: "a\nb\nEND\nc\n"}))
	b.asParallel(t, trial{options: []string{"-I", ",,"}, words: "x,,y ,, {/} {.} {#}", input: "a/b.c\nd\n"})
	if !b.long {
		return
	}
	b.asParallel(t, trial{options: []string{"-E", "END"}, input: "a\n END\nEND \nEND"})
	b.asParallel(t, trial{options: []string{"-n0"}, input: "a\n\nb", words: "x {#}"})
	b.asParallel(t, trial{options: []string{"-I", "@"}, words: "x@y @@", input: "a/b.c\n@\n"})

	lines := "echo a 'b  c'\n\n# comment\n  \necho \"$((1+1))\" | tr 2 3; printf '%s.' x y\nprintf 'no newline'"
	require.Equal(t, b.ok(t, lines, "parallel", "-k"), b.ok(t, lines, "crew", "-k"), "lines as commands")
	require.Equal(t, b.ok(t, "", "parallel", "-k", ":::", "echo a", "echo b | rev", "echo '*'"),
		b.ok(t, "", "crew", "-k", ":::", "echo a", "echo b | rev", "echo '*'"), "values as commands")
}

// compareBatchesParallel compares -n, with {} and numbers in the command, where
// all batches are full: see differences.
func compareBatchesParallel(t *testing.T, b *bench) {
	r := rand.New(rand.NewPCG(11, 12))
	words := []string{"{} x{}y {1} {-1}", "", "x{}y {} {/}.z", "{1} {4.} {-2/} {#} a{3}b{1}", "{.} {//}- {/.}"}
	for i, words := range words {
		n := i + 1
		if n != 4 && !b.long {
			continue
		}
		var values []string
		for range 4 * n {
			values = append(values, names[20+r.IntN(20)]+"/"+names[r.IntN(5)])
		}
		b.asParallel(t, trial{
			options: []string{"-0", "-j1", fmt.Sprint("-n", n)}, parallel: []string{"-X"}, input: null(values), words: words,
		})
	}
	b.asParallel(t, trial{options: []string{"-n3"}, parallel: []string{"-X", "-j1"}, input: "a\nb c\n\nd\n", words: "{} x{}"})
	b.asParallel(t, trial{options: []string{"-n2"}, words: "{} {#}", values: []string{":::", "a b", "'", "c", "$x", "last"}})
}

// compareReplaceXargs compares -I.
func compareReplaceXargs(t *testing.T, b *bench) {
	r := rand.New(rand.NewPCG(13, 14))
	for i, rep := range []string{"{}", "@", "^", "REC", ",,", "{x}"} {
		in := strings.Join(records(r, 8, "\n"), "\n")
		b.asXargs(t, trial{
			options: []string{"-d", `\n`, "-I", rep}, input: in,
			words: strings.ReplaceAll([]string{"@ x@y", "@@ - @", "-@"}[i%3], "@", rep),
		})
	}
}
