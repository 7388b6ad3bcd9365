package web

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"crew/runner/trust"
)

const tokenBytes = 24 // of a new token; one in a file has 16 or more

var tokenText = base64.RawURLEncoding.Strict()

func newToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails
	return tokenText.EncodeToString(b)
}

// readToken returns the token that a file keeps, a new one if there is no file yet, or with
// "" one that is kept nowhere.
func readToken(file string) (string, error) {
	if file == "" {
		return newToken(), nil
	}
	f, err := trust.OpenOwn(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO does not block
	if errors.Is(err, fs.ErrNotExist) {
		token := newToken()
		if err := trust.WritePrivate(file, []byte(token+"\n")); err != nil {
			return "", fmt.Errorf("write the token: %w", err)
		}
		return token, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("others can read the token in %s: remove the file, so that a new one is made", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, 1000))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if b, err := tokenText.DecodeString(token); err != nil || len(b) < 16 {
		return "", fmt.Errorf("%s holds no token: remove it, so that one is made, or name another file", file)
	}
	return token, nil
}
