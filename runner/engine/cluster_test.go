package engine

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// asNode in the environment of a test binary makes it a server of a cluster: its words
// are a directory, a name, its port, that for the others, and their ports.
const asNode = "CREW_TEST_NODE"

// serveNode serves for ever.
func serveNode(words []string) error {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	o := &server.Options{
		ServerName: words[1], Host: "127.0.0.1", Port: number(words[2]), StoreDir: words[0], JetStream: true, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "crew", Host: "127.0.0.1", Port: number(words[3])},
	}
	for _, port := range words[4:] {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + port})
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(startWait) {
		return fmt.Errorf("%s does not start", words[1])
	}
	fmt.Println("nats://127.0.0.1:" + words[2])
	select {}
}

// cluster is three servers, each a process.
type cluster struct {
	t     *testing.T
	words [3]string
	nodes [3]*crewtest.Process
	url   string // of all
}

// newCluster starts a cluster with crew's streams on all three servers.
func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t}
	var ports [6]string
	for i := range ports {
		for ports[i] = steadyPort(); slices.Contains(ports[:i], ports[i]); ports[i] = steadyPort() {
		}
	}
	urls := []string{}
	for i := range c.words {
		c.words[i] = fmt.Sprintf("%s n%d %s %s %s", t.TempDir(), i, ports[i], ports[3+i], strings.Join(ports[3:], " "))
		urls = append(urls, "nats://127.0.0.1:"+ports[i])
	}
	c.url = strings.Join(urls, ",")
	return c
}

// open starts all servers and makes crew's streams.
func (n *cluster) open() {
	for i := range n.nodes {
		n.start(i)
	}
	crewtest.Until(n.t, func() bool {
		return crew(n.t, "engine", "init", "--replicas", "3", "--engine", n.url).Wait() == 0
	}, "the cluster")
}

// TestCluster is TestChaos with a cluster, whose servers are killed and stopped in the middle of a run.
func TestCluster(t *testing.T) {
	crewtest.Soak(t)
	t.Parallel()
	for i := range crewtest.Rounds(0) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { clusterRound(t, i) })
	}
}

// clusterRound is a round of TestChaos with two workers and a cluster, which is disturbed as
// often as there are kinds of faults.
func clusterRound(t *testing.T, round int) {
	faults := []string{"kill server", "kill two servers", "stop server", "kill worker", "kill the submitter"}
	n, c := newCluster(t), chaosAt(t, round)
	n.open()
	c.engine = n.url
	for i := range 2 {
		c.startWorker(i)
	}
	c.submit()
	for range faults {
		time.Sleep(time.Duration(c.rand.IntN(1000)) * time.Millisecond)
		if !c.sub.Ended() {
			n.fault(c, faults[c.rand.IntN(len(faults))])
		}
	}
	// Elections, each of up to 9s, can follow one another.
	for end := time.Now().Add(3 * crewtest.Patience); !c.sub.Ended() && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	c.sub.Exits(0)
	if !c.killed || c.sub.Stdout() != "" {
		t.Log(c.account(), "attempts were run again")
	}
}

func (n *cluster) fault(c *chaos, what string) {
	i, pause := c.rand.IntN(3), time.Duration(c.rand.IntN(5000))*time.Millisecond
	c.t.Log(what, i)
	c.mayRun += 2 * chaosSlots // if no leader confirms leases for too long
	switch what {
	case "kill server":
		n.nodes[i].Kill()
		n.start(i)
	case "kill two servers":
		for k := range 2 {
			n.nodes[(i+k)%3].Kill()
		}
		time.Sleep(pause)
		for k := range 2 {
			n.start((i + k) % 3)
		}
	case "stop server":
		n.nodes[i].Send(syscall.SIGSTOP)
		time.Sleep(pause)
		n.nodes[i].Send(syscall.SIGCONT)
	case "kill worker":
		c.kill(i % 2)
		c.startWorker(i % 2)
	case "kill the submitter":
		c.killed = true
		c.sub.Kill()
		c.submit("--replay")
	}
}

func (n *cluster) start(i int) {
	n.nodes[i] = start(n.t, []string{asNode + "=" + n.words[i]})
	n.nodes[i].Says(n.nodes[i].Stdout, "nats://")
}

// Streams that are there are read from their leaders from then on, and keep their limits.
func TestStreamsThatAreThere(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		s := b.connect(nil)
		for _, name := range []string{tasksStream, resultsStream, workersStream, runsStream, filesStream} {
			st, err := s.js.Stream(t.Context(), name)
			require.NoError(t, err)
			old := st.CachedInfo().Config
			old.AllowDirect, old.MaxMsgs = true, 7
			_, err = s.js.UpdateStream(t.Context(), old)
			require.NoError(t, err)
			require.NoError(t, s.create(t.Context(), memoryLimits))
			st, err = s.js.Stream(t.Context(), name)
			require.NoError(t, err)
			old.AllowDirect = false
			require.Equal(t, old, st.CachedInfo().Config)
		}
	})
}
