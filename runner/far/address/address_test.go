package address

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestFind(t *testing.T) {
	dir, err := filepath.Abs("testdata")
	require.NoError(t, err)
	t.Chdir("testdata/here")
	crewtest.Examples(t, "../find.jsonl", func(t *testing.T, row struct {
		Engine, Error string
		Env           map[string]string
		Want          []string
	}) {
		t.Setenv("XDG_CONFIG_HOME", dir+"/config")
		for _, name := range []string{"URL", "CONTEXT", "USER", "PASSWORD", "CREDS", "NKEY", "TOKEN", "CA", "CERT", "KEY"} {
			t.Setenv("NATS_"+name, "")
		}
		for name, value := range row.Env {
			t.Setenv(name, strings.ReplaceAll(value, "DIR", dir))
		}
		url, set, err := Find(strings.ReplaceAll(row.Engine, "DIR", dir))
		o := nats.GetDefaultOptions()
		if err == nil {
			err = set(&o)
		}
		if row.Error != "" {
			require.ErrorContains(t, err, row.Error)
			require.NotContains(t, err.Error(), "secret")
			return
		}
		require.NoError(t, err)
		require.Equal(t, row.Want, []string{url, o.User, o.Password, o.InboxPrefix, o.Token})
	})
	require.Equal(t, "nats://hub:4222", WithoutPassword("u:secret@hub:4222"))
}
