package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/travel"
)

func testAttempt() *Attempt {
	return &Attempt{
		ID: ID{"run", 1, 2, 1}, Token: Token{9}, Slot: 3, Key: "k",
		Argv: []string{"echo", "a"}, Env: []string{"A=b"}, Dir: "/tmp", Records: [][]string{{"x", ""}},
		Stdin: []byte("in"), HasStdin: true, Timeout: time.Second, KillAfter: time.Second,
		Take: []travel.File{{Path: "p", Object: "o", Mode: 0o644}}, Return: []string{"r"}, Cleanup: true,
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	key := newSigningKey()
	other := newSigningKey()
	trusted, err := loadTrust([]string{key.public()})
	require.NoError(t, err)
	subject := taskSubject("q", "w", "run")
	check := func(msg []byte, on string) error {
		a, err := DecodeAttempt(msg)
		if err != nil {
			return err
		}
		return trusted.check(a, on, msg)
	}

	a := testAttempt()
	require.ErrorContains(t, check(a.Encode(), subject), "is not signed")
	key.sign(a, subject)
	msg := a.Encode()
	require.NoError(t, check(msg, subject))
	require.ErrorContains(t, check(msg, taskSubject("q", "v", "run")), "is wrong")
	for i := range msg {
		for bit := range 8 {
			msg[i] ^= 1 << bit
			require.Error(t, check(msg, subject), "byte %d", i)
			msg[i] ^= 1 << bit
		}
	}

	a = testAttempt()
	other.sign(a, subject)
	require.ErrorContains(t, check(a.Encode(), subject), "add "+other.public())
	a.Signer = key.signer
	require.ErrorContains(t, check(a.Encode(), subject), "is wrong")
	a.Expires = time.Now().Add(-3 * time.Second)
	key.sign(a, subject)
	require.ErrorContains(t, check(a.Encode(), subject), "expired 3s ago: compare the clocks")
	require.ErrorContains(t, signers(nil).check(a, subject, a.Encode()), "not trusted")
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	key := newSigningKey()
	require.NoError(t, key.save(file))
	require.ErrorContains(t, key.save(file), "is there already")
	again, err := loadSigningKey(file)
	require.NoError(t, err)
	require.Equal(t, key, again)

	write := func(text string) string {
		name := filepath.Join(dir, "trust")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	_, err = loadTrust([]string{write("# mine\n\n" + key.public() + " ada@laptop\r\n")})
	require.NoError(t, err)
	for text, why := range map[string]string{
		"": "no key is trusted", "#\n" + key.public() + "x": "line 2: this is no public key",
		publicPrefix: "no public key", strings.Replace(key.public(), publicPrefix, secretPrefix, 1): "secret",
	} {
		_, err = loadTrust([]string{write(text)})
		require.ErrorContains(t, err, why)
	}
	_, err = loadTrust([]string{filepath.Join(dir, "none")})
	require.ErrorContains(t, err, "none")

	require.NoError(t, os.Chmod(file, 0o640))
	_, err = loadSigningKey(file)
	require.ErrorContains(t, err, "others can read")
	_, err = loadSigningKey(write("x"))
	require.ErrorContains(t, err, "holds no signing key")
	_, err = loadSigningKey(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "crew engine key FILE")
}
