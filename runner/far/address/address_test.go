package address

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestContext(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	for _, name := range []string{"URL", "CONTEXT", "USER", "PASSWORD", "CREDS", "NKEY", "TOKEN", "CA", "CERT", "KEY"} {
		t.Setenv("NATS_"+name, "")
	}
	dial := func(engine string) (string, nats.Options, error) {
		url, set, err := Find(engine)
		o := nats.GetDefaultOptions()
		if err == nil {
			err = set(&o)
		}
		return url, o, err
	}
	fails := func(engine, why string) {
		t.Helper()
		_, _, err := dial(engine)
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), "secret")
	}
	fails("", "no hub is given")
	fails("hub", `no NATS context "hub", nor any other: write a URL such as nats://hub:4222`)
	fails("http://u:secret@hub", "cannot connect to a hub with http")
	fails("nats://u:secret%@hub", `"hub" is not the URL`)
	fails("nats://u:se,cret@", `"" is not the URL`)
	fails("./none.json", "no such file")
	fails("none.json", "read the NATS context: open none.json: no such file")

	context := filepath.Join(dir, "nats", "context")
	require.NoError(t, os.MkdirAll(context, 0o700))
	write := func(name, text string) string {
		file := filepath.Join(context, name+".json")
		crewtest.WriteFile(t, file, text, 0o600)
		return file
	}
	file := write("hub", `{"url": "tls://a:1,tls://b:2", "user": "ada", "password": "secret", "inbox_prefix": "mine", "nsc": ""}`)
	write("other", `{"nsc": "nsc://x"}`)
	write("bad", `{"user": "secret`)
	fails("hut", "there are bad, hub, other")
	fails("../context/hub", "there is no NATS context")
	fails("other", "has nsc, which crew does not support")
	fails("bad", "not valid JSON")

	url, o, err := dial("u:secret@hub:4222")
	require.NoError(t, err)
	require.Equal(t, "u:secret@hub:4222", url)
	require.Equal(t, "nats://hub:4222", WithoutPassword(url))

	// The files that the hub writes need no path, and a context of the name comes first.
	t.Chdir(t.TempDir())
	text := crewtest.ReadFile(t, file)
	for _, name := range []string{"worker.json", "worker"} {
		crewtest.WriteFile(t, name, text, 0o600)
	}
	crewtest.WriteFile(t, "hub", `{"url": "nats://planted"}`, 0o600)
	for _, engine := range []string{"hub", file, "worker.json", "./worker.json", "worker"} {
		t.Setenv("NATS_TOKEN", "not this")
		url, o, err = dial(engine)
		require.NoError(t, err)
		require.Equal(t, []string{"tls://a:1,tls://b:2", "ada", "secret", "mine", ""},
			[]string{url, o.User, o.Password, o.InboxPrefix, o.Token})
	}
	t.Setenv("NATS_URL", "nats://x")
	url, o, err = dial("")
	require.NoError(t, err)
	require.Equal(t, []string{"nats://x", "not this"}, []string{url, o.Token})
	t.Setenv("NATS_URL", "")
	t.Setenv("NATS_CONTEXT", "hub")
	_, o, err = dial("")
	require.NoError(t, err)
	require.Equal(t, "ada", o.User)

	t.Setenv("NATS_CREDS", filepath.Join(dir, "none"))
	fails("nats://x", "no such file or directory: correct the NATS_ variable")
	t.Setenv("NATS_CREDS", "")
	t.Setenv("NATS_CERT", file)
	fails("nats://x", "needs its key")
}
