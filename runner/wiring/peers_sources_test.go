package wiring

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parts are values of sources: plain names, for {N} in all its forms.
var parts = []string{"a", "b.c", "d/e", "/f/g.h", "i j", "k'l", `m"n`, "$o", "*", "é", "\xff", "-p", "q\\", "x.y/z"}

// compareProducts compares groups of values, one to three of them, linked and
// not, from the command line and from files.
func compareProducts(t *testing.T, b *bench) {
	r := rand.New(rand.NewPCG(15, 16))
	for i := range 12 {
		var values []string
		n := 1 + i%3
		for g := range n {
			var group []string
			for range 1 + r.IntN(4) {
				group = append(group, parts[r.IntN(len(parts))])
			}
			op := ":::"
			if r.IntN(2) == 0 {
				op = "::::"
				group = []string{file(t, strings.Join(group, "\n")+"\n")}
			}
			if g > 0 && r.IntN(3) == 0 {
				op += "+"
			}
			values = append(append(values, op), group...)
		}
		words := []string{"", "{} {.} {/} {//}", "{1} {2/} {-1}", "x{-1}y{1.} {2//}", "{1} {2} {3}", "{3.}-{2/.}-{1} {-2} {#}"}
		pick := words[2*(n-1)+i/3%2]
		if n == 1 && i/3%2 == 1 {
			pick = "{} {1} {1.} {-1/}"
		}
		b.asParallel(t, trial{words: pick, values: values})
	}
}

// compareSources compares where records come from.
func compareSources(t *testing.T, b *bench) {
	one, two := file(t, "a\nb\n\nc"), file(t, "1\n2\n")
	b.asParallel(t, trial{options: []string{"-a", one}, words: "{}"})
	b.asParallel(t, trial{options: []string{"-a", "-"}, input: "x\ny", words: "{}"})
	b.asParallel(t, trial{options: []string{"-a", one}, words: "{1}-{2}", values: []string{":::", "x", "y"}})
	b.asParallel(t, trial{words: "{1}-{2}", values: []string{"::::", one, two}})
	b.asParallel(t, trial{words: "{} {/} - {.}", values: []string{":::", "a b/c.d", "'", "", ":::", "x", "$y"}})
	b.asParallel(t, trial{options: []string{"-C", ","}, words: "{} {2}", input: "a b,c\n,d"})
	b.asParallel(t, trial{words: "{1}-{2}-{3}", values: []string{"::::", "-", "::::+", one, ":::", "z", ""}, input: "i\nj\nk\nl\nm"})
	b.asParallel(t, trial{options: []string{"-0"}, values: []string{"::::", file(t, "a\nb\x00c"), ":::", "x\ny"}})
	b.asParallel(t, trial{options: []string{"-E", "b"}, words: "{1}{2}", values: []string{":::", "a", "b", "c", ":::", "1", "b", "3"}})
}

// compareColumns compares -C, with --trim n for parallel, which cuts blanks off
// otherwise.
func compareColumns(t *testing.T, b *bench) {
	r := rand.New(rand.NewPCG(17, 18))
	for i, sep := range [][]string{
		{",", ","}, {`\t`, "\t"}, {" +", " ", "  "}, {"[,;]", ",", ";"}, {`\s+`, " ", "\t "}, {"::", "::"}, {`\|`, "|"}, {"a|e", "a", "e"},
	} {
		var in strings.Builder
		for range 10 {
			for c := range 3 {
				for range 1 + r.IntN(3) {
					in.WriteByte("xyz./'\"$"[r.IntN(8)])
				}
				if c < 2 {
					in.WriteString(sep[1+r.IntN(len(sep)-1)])
				}
			}
			in.WriteByte('\n')
		}
		words := []string{"", "{1} {2} {3}", "{3}-{-3} {-1} {#}"}[i%3]
		b.asParallel(t, trial{options: []string{"-C", sep[0]}, parallel: []string{"--trim", "n"}, input: in.String(), words: words})
	}
	comma := []string{"-C", ","}
	b.asParallel(t, trial{options: comma, parallel: []string{"--trim", "n"}, input: " a, b ,\n,,\nc,,d\n", words: "-{1}-{2}-{3}-"})
	b.asParallel(t, trial{options: comma, input: "a/b.c,d.e/f\n", words: "{1.} {1/} {2//} {2/.} {-1/}"})
	b.asParallel(t, trial{options: comma, words: "{1} {2} {3}", values: []string{":::", "a,b", "c,d", ":::", "e", "f"}})
	b.asParallel(t, trial{options: append(comma, "-d", ";"), input: "a,b;c,d;e,f", words: "{2}{1}"})
}

// compareHeaders compares --header, which parallel wants with a pattern.
func compareHeaders(t *testing.T, b *bench) {
	colon := []string{"--header", ":"}
	header := []string{"--header"}
	b.asParallel(t, trial{
		crew: header, parallel: colon, options: []string{"-C", ","}, input: "name,to x\na/b.c,d\ne,f'g\n",
		words: "{name} {name.} {name/} {name//} {name/.} {1}",
	})
	if !b.long {
		return
	}
	b.asParallel(t, trial{
		crew: header, parallel: colon, words: "{os}-{arch}-{1}-{not@hing}", values: strings.Fields("::: os linux darwin ::: arch amd64 arm64"),
	})
	b.asParallel(t, trial{
		crew: header, parallel: colon, words: "{a}{b}", values: strings.Fields("::: a 1 2 3 :::+ b x y"),
	})
	b.asParallel(t, trial{
		crew: header, parallel: colon, words: "{one}{b/}", values: []string{"::::", file(t, "one\n1\n2\n"), ":::", "b", "x/y"},
	})
}

// compareStdin compares what tasks read.
func compareStdin(t *testing.T, b *bench) {
	in := "a b\n 'c\n\xff\nd\nlast\n"
	for n := 1; n <= 3; n++ {
		require.Equal(t, b.ok(t, in, "parallel", "-k", "--pipe", fmt.Sprint("-N", n), "cat; echo ."),
			b.ok(t, in, "crew", "-k", "--stdin", fmt.Sprint("-n", n), "cat; echo ."), "%d records each", n)
	}
	list := filepath.Join(b.dir, "list")
	require.NoError(t, os.WriteFile(list, []byte("x\ny\n"), 0o600))
	for _, args := range [][]string{{"-a", list, "cat; echo {}"}, {"cat; echo {}", ":::", "x"}} {
		require.Equal(t, b.ok(t, "", "parallel", slices.Concat([]string{"-k"}, args)...), b.ok(t, "in", "crew", slices.Concat([]string{"-k"}, args)...))
	}
}
