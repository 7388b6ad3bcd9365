package engine

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// TestSilence: a worker whose server falls silent has time to renew its lease at another one. With --ssh,
// where there is no other, its connection survives a silence as long as its lease.
func TestSilence(t *testing.T) {
	const standard = 10 * time.Second
	for _, ttl := range []time.Duration{time.Second, standard, time.Hour} {
		o := nats.Options{}
		(&session{}).configure(&o)
		silence := func() time.Duration { return o.PingInterval * time.Duration(o.MaxPingsOut+1) }
		require.Less(t, standard/4+silence(), standard*fence/100)
		require.NoError(t, dialStdio(ttl, nil)(&o))
		require.GreaterOrEqual(t, silence(), ttl)
	}
}
