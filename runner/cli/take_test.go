package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitEngine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"hub":                     {"hub", "default"},
		"hub/fast":                {"hub", "fast"},
		"nats://u:p@hub:1":        {"nats://u:p@hub:1", "default"},
		"tls://a:1,tls://b/fast":  {"tls://a:1,tls://b", "fast"},
		"./d/submitter.json":      {"./d/submitter.json", "default"},
		"/d/submitter.json/night": {"/d/submitter.json", "night"},
		"":                        {"", "default"},
	} {
		url, queue, err := splitEngine(text)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{url, queue}, text)
	}
	_, _, err := splitEngine("hub/")
	require.Error(t, err)
}
