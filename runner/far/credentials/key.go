package credentials

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
)

const (
	publicPrefix = "crew-key:"    // begins a public key in a file of --trust
	secretPrefix = "crew-secret:" // begins a secret key in a file of --sign
)

var keyText = base64.RawURLEncoding.Strict()

// Key is a key that signs. It is safe for concurrent use.
type Key struct {
	Signer [32]byte // public key
	secret ed25519.PrivateKey
}

// NewKey returns a new random key.
func NewKey() *Key {
	_, secret, _ := ed25519.GenerateKey(nil) // never fails
	return newKey(secret)
}

func newKey(secret ed25519.PrivateKey) *Key {
	return &Key{[32]byte(secret.Public().(ed25519.PublicKey)), secret}
}

// LoadKey reads a key from a file made by crew engine key. It refuses a file that others can read.
func LoadKey(file string) (*Key, error) {
	info, err := os.Stat(file)
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w: crew engine key FILE makes one", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read the signing key %s: make a new one, or chmod 600 %s", file, file)
	}
	for line := range strings.Lines(string(text)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), secretPrefix); ok {
			if seed, err := keyText.DecodeString(text); err == nil && len(seed) == ed25519.SeedSize {
				return newKey(ed25519.NewKeyFromSeed(seed)), nil
			}
		}
	}
	return nil, fmt.Errorf("%s holds no signing key: crew engine key FILE makes one", file)
}

// Save writes the key to a new file that only its owner can read. It fails if the file exists.
func (k *Key) Save(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already: remove it first, or name another file", file)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = fmt.Fprintf(f, "# Whoever has this file can run commands on the workers that trust\n# %s\n%s%s\n",
		Line(k.Signer), secretPrefix, keyText.EncodeToString(k.secret.Seed()))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	return nil
}

// Line returns the line for a public key in a file of trusted keys.
func Line(signer [32]byte) string { return publicPrefix + keyText.EncodeToString(signer[:]) }

// Sign returns the signature of text.
func (k *Key) Sign(text []byte) [64]byte { return [64]byte(ed25519.Sign(k.secret, text)) }

// Keys is a set of trusted public keys. A nil Keys trusts none. It is safe for concurrent use as long
// as it is not changed.
type Keys map[[32]byte]bool

// LoadKeys reads files of public keys, one key a line, which may be followed by a comment. It skips blank
// lines and lines that begin with #. LoadKeys fails if there is no key at all.
func LoadKeys(files []string) (Keys, error) {
	t := Keys{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the trusted keys: %w", err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if word == "" || word[0] == '#' {
				continue
			}
			word, public := strings.CutPrefix(word, publicPrefix)
			key, err := keyText.DecodeString(word)
			if !public || err != nil || len(key) != ed25519.PublicKeySize {
				return nil, fmt.Errorf("%s, line %d: this is not a public key: write the line that crew engine key printed", file, n)
			}
			t[[32]byte(key)] = true
		}
	}
	if len(t) == 0 {
		return nil, errors.New("no key is trusted: give --trust a file with the line that crew engine key printed")
	}
	return t, nil
}
