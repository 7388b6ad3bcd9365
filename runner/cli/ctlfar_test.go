package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitEngine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"engine:hub":                     {"hub", "default"},
		"engine:hub/fast":                {"hub", "fast"},
		"engine:nats://u:p@hub:1":        {"nats://u:p@hub:1", "default"},
		"engine:tls://a:1,tls://b/fast":  {"tls://a:1,tls://b", "fast"},
		"engine:./d/submitter.json":      {"./d/submitter.json", "default"},
		"engine:/d/submitter.json/night": {"/d/submitter.json", "night"},
		"engine:":                        {"", "default"},
	} {
		url, queue, err := splitEngine(text)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{url, queue}, text)
	}
	_, _, err := splitEngine("engine:hub/")
	require.Error(t, err)
}
