package credentials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	key := NewKey()
	require.NoError(t, key.Save(file))
	require.ErrorContains(t, key.Save(file), "exists already")
	again, err := LoadKey(file)
	require.NoError(t, err)
	require.Equal(t, key, again)

	write := func(text string) string {
		name := filepath.Join(dir, "trust")
		crewtest.WriteFile(t, name, text, 0o600)
		return name
	}
	_, err = LoadKeys([]string{write("# mine\n\n" + Line(key.Signer) + " ada@laptop\r\n")})
	require.NoError(t, err)
	for text, why := range map[string]string{
		"": "no key is trusted", "#\n" + Line(key.Signer) + "x": "line 2: this is not a public key",
		publicPrefix: "not a public key", strings.Replace(Line(key.Signer), publicPrefix, secretPrefix, 1): "not a public key",
	} {
		_, err = LoadKeys([]string{write(text)})
		require.ErrorContains(t, err, why)
	}
	_, err = LoadKeys([]string{filepath.Join(dir, "none")})
	require.ErrorContains(t, err, "none")

	require.NoError(t, os.Chmod(file, 0o640))
	_, err = LoadKey(file)
	require.ErrorContains(t, err, "others can read")
	_, err = LoadKey(write("x"))
	require.ErrorContains(t, err, "holds no signing key")
	_, err = LoadKey(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "crew engine key FILE")
}
