package wiring

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// compareHalt compares what runs under --halt and, where one result stands for
// the run, the status.
func compareHalt(t *testing.T, b *bench) {
	for _, when := range []string{"soon", "now"} {
		for _, h := range []struct {
			why    string
			status bool
		}{
			{"fail=1", true}, {"fail=50%", false}, {"done=3", false}, {"success=2", true},
		} {
			args := []string{"-k", "-j1", "--halt", when + "," + h.why, "echo {}; exit {}", ":::", "0", "4", "0", "3", "5"}
			want, got := b.run(t, "", "parallel", args...), b.run(t, "", "crew", args...)
			require.Equal(t, want.stdout, got.stdout, args)
			if h.status {
				require.Equal(t, want.status, got.status, args)
			} else {
				require.Equal(t, 123, got.status, args)
			}
		}
	}
	for _, h := range []string{"soon,done=10%", "now,fail=10%", "soon,success=50%"} {
		args := []string{"-k", "-j1", "--halt", h, "echo {}; case {} in *[05]) exit 1;; esac"}
		want, got := b.run(t, counted(200), "parallel", args...), b.run(t, counted(200), "crew", args...)
		require.Equal(t, want.stdout, got.stdout, args)
	}
	for _, args := range [][]string{
		{"-j1", "--halt", "never", "echo {}", ":::", "0", "0"},
		{"-j1", "--halt", "now,fail=1", "echo {}; exit {}", ":::", "0", "0"},
		{"-j1", "--halt", "now,fail=1", "kill -TERM $$; sleep 10 {}", ":::", "0", "1"},
		{"-j1", "--halt", "now,success=1", "echo {}; exit {}", ":::", "3", "2", "0", "1"},
		{"-j2", "--halt", "now,success=1", "[ {} = 1 ] || exec sleep 30; echo {}", ":::", "1", "2"},
	} {
		want, got := b.run(t, "", "parallel", args...), b.run(t, "", "crew", args...)
		require.Equal(t, want.stdout, got.stdout, args)
		require.Equal(t, want.status, got.status, args)
	}
}

// compareStatusXargs compares the exit status, which crew has from xargs.
func compareStatusXargs(t *testing.T, b *bench) {
	for _, c := range []struct {
		input string
		words []string
		want  int
	}{
		{"", []string{"false"}, 0},
		{"0\n0\n", []string{"sh", "-c", "exit $0"}, 0},
		{"0\n1\n0\n", []string{"sh", "-c", "exit $0"}, 123},
		{"125\n", []string{"sh", "-c", "exit $0"}, 123},
		{"3\n4\n", []string{"sh", "-c", "exit $0"}, 123},
		{"a\nb\n", []string{"crew-no-such-program"}, 127},
		{"a\nb\n", []string{"/no/such/program"}, 127},
		{"a\nb\n", []string{"/etc/passwd"}, 126},
		{"a\nb\n", []string{"/etc"}, 126},
	} {
		args := slices.Concat([]string{"-d", `\n`, "-n1"}, c.words)
		want := b.run(t, c.input, "xargs", slices.Concat([]string{"-r"}, args)...)
		require.Equal(t, c.want, want.status, args)
		require.Equal(t, c.want, b.run(t, c.input, "crew", args...).status, args)
	}
	args := []string{"-a", "/no/such/file", "true"}
	require.Equal(t, 1, b.run(t, "", "xargs", args...).status)
	require.Equal(t, 1, b.run(t, "", "crew", args...).status)
}

// compareStatusParallel compares whether a run succeeded: parallel counts the
// failed tasks, and crew says 123.
func compareStatusParallel(t *testing.T, b *bench) {
	for failed := range 3 {
		args := []string{"-n1", "[ {} -gt " + fmt.Sprint(failed) + " ]", ":::", "1", "2", "3"}
		want, got := b.run(t, "", "parallel", args...), b.run(t, "", "crew", args...)
		require.Equal(t, failed, want.status)
		require.Equal(t, failed > 0, got.status == 123)
		require.Equal(t, failed == 0, got.status == 0)
	}
}
