package engine

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
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

// A run whose link has come to a halt says what it waits for: that the hub confirms a task, or the
// rest of an output.
func TestHeldLink(t *testing.T) {
	b := newBroker(t)
	b.link = crewtest.NewLink(t, strings.TrimPrefix(b.current.Load().ClientURL(), "nats://"), 4*slowRate)
	b.worker("a", 1, func(f *fake, a *Attempt, m jetstream.Msg) {
		const n = 30 * chunkSize
		if a.Task == 1 {
			b.link.Hold(1)
			answer(f, a, m)
			return
		}
		for i := int64(0); i < n; i += chunkSize {
			f.says(a, Chunk{Offset: i, Data: make([]byte, chunkSize)})
		}
		f.end(a, func(fin *Final) { fin.StdoutLen = n })
		_ = m.Ack()
	})
	r := b.run(2, nil)
	r.said("waiting for the hub to confirm 1 message for ")
	b.link.Hold(0)
	crewtest.Until(t, func() bool { return r.x.results.latest.Load() != nil }, "some output")
	b.link.Hold(1)
	r.said("receiving the output of task 2: ")
	b.link.Hold(0)
	e := r.wait()
	require.Equal(t, int64(2), e.Stats.Of(task.OK))
}
