package engine

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	publicPrefix = "crew-key:"    // of a public key, in a file of --trust
	secretPrefix = "crew-secret:" // of what --sign reads
	signedFor    = 5 * time.Minute
	signContext  = "crew-attempt-1\x00" // keeps signatures from meaning anything elsewhere
)

var keyText = base64.RawURLEncoding.Strict()

// signingKey signs attempts that bring commands. It is safe for concurrent use.
type signingKey struct {
	secret ed25519.PrivateKey
	signer [32]byte
}

// newSigningKey returns a key that nobody has yet.
func newSigningKey() *signingKey {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails
	return seededKey(seed)
}

func seededKey(seed []byte) *signingKey {
	k := &signingKey{secret: ed25519.NewKeyFromSeed(seed)}
	copy(k.signer[:], k.secret.Public().(ed25519.PublicKey))
	return k
}

// loadSigningKey reads a key that crew engine key has made. It refuses a file that
// others can read.
func loadSigningKey(file string) (*signingKey, error) {
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
				return seededKey(seed), nil
			}
		}
	}
	return nil, fmt.Errorf("%s holds no signing key: crew engine key FILE makes one", file)
}

// save writes the key to a new file that nobody else can read.
func (k *signingKey) save(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: remove it first, or name another file", file)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = fmt.Fprintf(f, "# Whoever has this file can run commands on the workers that trust\n# %s\n%s%s\n",
		k.public(), secretPrefix, keyText.EncodeToString(k.secret.Seed()))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	return nil
}

// public returns the line that makes a worker trust k.
func (k *signingKey) public() string { return publicPrefix + keyText.EncodeToString(k.signer[:]) }

// sign sets the fields of the signature of an attempt that will be sent on subject.
// Unless Expires is set, the signature holds for a few minutes. Nothing else may
// change afterwards.
func (k *signingKey) sign(a *Attempt, subject string) {
	if a.Expires.IsZero() {
		a.Expires = time.Now().Add(signedFor)
	}
	a.Signer = k.signer
	a.Sig[0] = 1 // any that is not zero has its place in the message
	copy(a.Sig[:], ed25519.Sign(k.secret, signedText(a.Encode(), subject)))
}

// signLasting is sign for all attempts of a task, on whatever worker of the queue in subject.
func (k *signingKey) signLasting(a *Attempt, subject string) {
	a.Lasting, a.Expires = true, time.Now().Add(keptFor)
	k.sign(a, subject)
}

// common returns what all attempts of a task have in common.
func (a *Attempt) common() *Attempt {
	c := *a
	c.Epoch, c.Number, c.Token, c.Slot, c.Units = 0, 0, Token{}, 0, nil
	return &c
}

// signedText returns what is signed of a message: all but the signature at its end,
// and the subject.
func signedText(msg []byte, subject string) []byte {
	b := make([]byte, 0, len(signContext)+len(subject)+1+len(msg))
	b = append(b, signContext...)
	b = append(b, subject...)
	b = append(b, 0)
	return append(b, msg[:len(msg)-ed25519.SignatureSize]...)
}

// signers holds the keys whose signatures count. It is safe for concurrent use.
type signers map[[32]byte]bool

// loadTrust reads files of public keys, one a line. Blank lines, and those that begin
// with #, are skipped. A key can also stand in place of a file.
func loadTrust(files []string) (signers, error) {
	t := signers{}
	for _, file := range files {
		text := []byte(file)
		if !strings.HasPrefix(file, publicPrefix) {
			var err error
			if text, err = os.ReadFile(file); err != nil {
				return nil, fmt.Errorf("read the trusted keys: %w", err)
			}
		}
		n := 0
		for line := range bytes.Lines(text) {
			n++
			line := strings.TrimSpace(string(line))
			if line == "" || line[0] == '#' {
				continue
			}
			key, err := trustKey(line)
			if err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", file, n, err)
			}
			t[key] = true
		}
	}
	if len(t) == 0 {
		return nil, errors.New("no key is trusted: give --trust a file of what crew engine key has printed")
	}
	return t, nil
}

// trustKey parses a public key, behind which a comment may follow.
func trustKey(line string) (key [32]byte, err error) {
	word, _, _ := strings.Cut(line, " ")
	text, public := strings.CutPrefix(word, publicPrefix)
	b, err := keyText.DecodeString(text)
	switch {
	case strings.HasPrefix(word, secretPrefix):
		return key, errors.New("this is the secret key: write the public one, " + publicPrefix + "... instead")
	case !public || err != nil || len(b) != len(key):
		return key, errors.New("this is no public key: write what crew engine key has printed")
	}
	return [32]byte(b), nil
}

// check returns why an attempt must not run: msg, which came on subject and which a
// was decoded from, is not signed by a trusted key, or no longer. The caller must
// refuse what it has taken before.
func (t signers) check(a *Attempt, subject string, msg []byte) error {
	left := time.Until(a.Expires)
	if a.Lasting {
		of := strings.Split(subject, ".") // see taskSubject
		subject, msg = taskSubject(of[2], anyWorker, a.Run), a.common().Encode()
	}
	switch {
	case a.Signer == [32]byte{}:
		return errors.New("its command is not signed: give the run --sign FILE")
	case !t[a.Signer]:
		return errors.New("its command is signed by a key that is not trusted: add " +
			publicPrefix + keyText.EncodeToString(a.Signer[:]) + " to a file of --trust")
	case a.Sig == [64]byte{}, !ed25519.Verify(a.Signer[:], signedText(msg, subject), msg[len(msg)-ed25519.SignatureSize:]):
		return errors.New("its signature is wrong: it was changed on its way")
	case left <= 0:
		return fmt.Errorf("its signature expired %v ago: compare the clocks of the two machines", -left.Round(time.Second))
	}
	return nil
}
