package engine

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// slowRate is what a link has to carry in a second, in each direction.
const slowRate = 100 << 10

// Tasks reach a worker over a slow link, and their results a run over another one, without a lost
// lease or connection, and nothing stands still.
func TestSlowLinks(t *testing.T) {
	address := strings.TrimPrefix(startHub(t), "nats://")
	near, far := crewtest.NewLink(t, address, slowRate), crewtest.NewLink(t, address, slowRate)
	input, text := filepath.Join(t.TempDir(), "input"), strings.Repeat("x", 150<<10)+"\n"
	crewtest.WriteFile(t, input, text+text, 0o600)
	command := []string{"--stdin", "cat; head -c 900000 /dev/zero"}
	w := crew(t, append([]string{"worker", "--engine", "nats://127.0.0.1:" + far.Port, "-j2"}, command...)...)
	p := crew(t, append([]string{"--engine", "nats://127.0.0.1:" + near.Port, "-a", input}, command...)...)
	p.Exits(0)
	require.True(t, strings.Repeat(text+strings.Repeat("\x00", 900_000), 2) == p.Stdout())
	require.NotRegexp(t, "lost|lease|away|killed", p.Stderr()+w.Stderr())
}

// The same holds for a host that ssh reaches over a slow link.
func TestSlowSSH(t *testing.T) {
	t.Parallel()
	s := crewtest.StartSSHD(t)
	crewIn(t, s.Path, "-S", "1/web1", "true", ":::", "1").Exits(0) // has crew-engine copied
	link := crewtest.NewLink(t, "127.0.0.1:"+s.Port, slowRate)
	p := crewIn(t, s.Path, "-S", "2/web1:"+link.Port, "head -c 600000 /dev/zero | tr '\\0' x; : {}", ":::", "1", "2")
	p.Exits(0)
	require.Len(t, p.Stdout(), 1_200_000)
	require.NotRegexp(t, "lost|lease|gone|killed", p.Stderr())
}
