package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/front/wiring"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	seen := map[[32]byte]bool{}
	for _, c := range []wiring.Template{
		{}, {Words: []string{"a b"}}, {Words: []string{"a", "b"}}, {Words: []string{"a"}, Shell: "b"}, {Words: []string{"a"}, Replace: "b"},
		{Words: []string{"a"}, Protocol: task.LineProtocol}, {Words: []string{"a"}, Protocol: task.JSONProtocol}, {Words: []string{"a"}, Stdin: true}, {Words: []string{"a"}, NoArgs: true}, {Words: []string{"a"}, Objects: true},
	} {
		sum, _ := digest(c)
		require.False(t, seen[sum], "%+v", c)
		seen[sum] = true
		c.Names = []string{"x"}
		again, _ := digest(c)
		require.Equal(t, sum, again, "names of columns travel with the tasks")
	}
	_, text := digest(wiring.Template{Words: []string{"convert", "{}", "a b"}})
	require.Equal(t, "convert '{}' 'a b'", text)
	_, text = digest(wiring.Template{Words: []string{"a"}, NoArgs: true, Replace: "x y", Shell: "bash"})
	require.Equal(t, "-I 'x y' --shell bash -n0 a", text)
	_, text = digest(wiring.Template{Words: []string{"a b"}, Shell: "bash", Protocol: task.NULProtocol})
	require.Equal(t, "--shell bash --worker-protocol nul --worker 'a b'", text)
}
