package wiring

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// same runs crew and parallel with the same arguments and wants the same
// stdout; both must succeed.
func (b *bench) same(t *testing.T, input string, args ...string) string {
	t.Helper()
	want := b.ok(t, input, "parallel", args...)
	require.Equal(t, want, b.ok(t, input, "crew", args...), "parallel and crew: %q", args)
	return want
}

// compareOrder compares results of tasks that do not end in the order of input.
func compareOrder(t *testing.T, b *bench) {
	naps := []string{":::", ".06", ".01", ".04", "0", ".02", ".05", ".03", "0"}
	for _, args := range [][]string{
		{"-k", "-j4", "sleep {}; echo {}; echo .{#}"},
		{"-k", "-j8", "echo {}; sleep {}; echo end; echo error >&2"},
		{"-k", "-j2", "--tag", "sleep {}; echo {}"},
		{"-k", "-j3", "--line-buffer", "sleep {}; echo {}; echo {#}"},
		{"-j1", "echo {}; echo {#}"},
		{"-j1", "-u", "echo {}; echo {#}"},
	} {
		b.same(t, "", append(args, naps...)...)
	}
	// Without an order the same blocks come in some order.
	blocks := func(program string) []string {
		out := b.ok(t, "", program, append([]string{"-j4", "echo {#}; sleep {}; echo {}"}, naps...)...)
		var list []string
		for lines := strings.SplitAfter(out, "\n"); len(lines) > 1; lines = lines[2:] {
			list = append(list, lines[0]+lines[1])
		}
		return list
	}
	require.ElementsMatch(t, blocks("parallel"), blocks("crew"))
}

// compareTags compares what stands before lines.
func compareTags(t *testing.T, b *bench) {
	lines := `printf '%s\n' {} '' 'x	y'`
	b.same(t, "", "-k", "--tag", lines, ":::", "a b", "c'd", "$e", "\xff", "")
	tagged := func(tag string, args ...string) {
		require.Equal(t, b.ok(t, "", "parallel", slices.Concat([]string{"-k", "--tagstring", tag}, args)...),
			b.ok(t, "", "crew", slices.Concat([]string{"-k", "--tag-string", tag}, args)...), tag)
	}
	tagged("{1}-{2/.}:{-1}", "echo {2}; echo x", ":::", "a", "b", ":::", "c/d.e", "f.g")
	if !b.long {
		return
	}
	b.same(t, "", "-k", "--tag", "echo {1}; echo {2}", ":::", "a b", "c", ":::", "1", "2")
	b.same(t, "a,b\nc,d\n", "-k", "-C,", "--tag", "echo {2}")
	b.same(t, "", "-k", "--tag", "-n2", "echo {}", ":::", "a", "b", "c", "d")
	b.same(t, "", "-k", "--tag", "true", ":::", "a", "b")
	tagged("no placeholder", "echo {}", ":::", "a", "b")
	tagged("{/}", "echo {}", ":::", "a/b c", "d/$e")
}

// compareDryRun compares what the printed commands do. crew prints them so that
// a shell can run them, however they would have been run.
func compareDryRun(t *testing.T, b *bench) {
	values := slices.Concat([]string{":::"}, []string{"a", "a b", "q'q", `d"q`, "", "$x", "`id`", "~", "=", "*", "#", "-n", "a\\b", "\xff", "é", "a;b", "{1}"})
	run := func(script string) [][]string { return argvs(t, b.ok(t, script, "sh")) }
	for _, words := range []string{"x{}y {/} {.}", "{}", "{#} {1}"}[:b.most(3)] {
		want := run(b.ok(t, "", "parallel", slices.Concat([]string{"-k", "--dry-run", showScript + words}, values)...))
		require.Len(t, want, len(values)-1)
		require.Equal(t, want, run(b.ok(t, "", "crew", slices.Concat([]string{"-k", "--dry-run", showScript + words}, values)...)), "script")
		require.Equal(t, want, run(b.ok(t, "", "crew", slices.Concat([]string{"-k", "--dry-run"}, showWords, strings.Fields(words), values)...)), "words")
	}
	for _, args := range [][]string{
		{"-n3", "echo"}, {"echo {1}-{2}", ":::", "x", "y"},
	} {
		b.same(t, "", slices.Concat([]string{"-k", "-j1", "--dry-run"}, args, []string{":::", "a", "b", "c"})...)
	}
}

// compareVerbose compares -t.
func compareVerbose(t *testing.T, b *bench) {
	for _, in := range []string{"a\nb\nc\n", "a b\nc'd\n$e\n"} {
		want := b.run(t, in, "xargs", "-d", `\n`, "-n1", "-t", "true", "x")
		got := b.run(t, in, "crew", "-d", `\n`, "-n1", "-t", "-j1", "true", "x")
		require.Equal(t, argvsOf(t, b, want.stderr), argvsOf(t, b, got.stderr))
	}
}

// argvsOf is the arguments of commands that begin with true.
func argvsOf(t *testing.T, b *bench, commands string) [][]string {
	t.Helper()
	show := strings.ReplaceAll("\n"+commands, "\ntrue ", "\n"+showScript)
	return argvs(t, b.ok(t, show, "sh"))
}

// compareEnvironment compares what tasks are told about themselves.
func compareEnvironment(t *testing.T, b *bench) {
	b.same(t, "", "-k", "-j1", "echo $PARALLEL_SEQ {#} $PARALLEL_JOBSLOT {%}", ":::", "a", "b", "c")
	for _, program := range []string{"parallel", "crew"} {
		out := b.ok(t, "", program, "-k", "-j3", "sleep 0.02; echo $PARALLEL_SEQ {#} $PARALLEL_JOBSLOT {%} #",
			":::", "a", "b", "c", "d", "e", "f", "g")
		seq := 0
		for line := range strings.Lines(out) {
			seq++
			f := strings.Fields(line)
			require.Equal(t, []string{fmt.Sprint(seq), fmt.Sprint(seq)}, f[:2])
			require.Contains(t, []string{"1", "2", "3"}, f[2])
			require.Equal(t, f[2], f[3])
		}
		require.Equal(t, 7, seq)
	}
}
