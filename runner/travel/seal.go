package travel

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
)

// Seal keeps what an object holds from all who lack it: the content can be neither read nor
// replaced. It travels with the name, to those who need the content.
type Seal struct {
	Key  [16]byte          // for AES
	Sum  [sha256.Size]byte // of the content
	Size int64
}

// ErrChanged is the error of an object with another content than its seal's.
var ErrChanged = errors.New("somebody has changed it on its way")

// NewSeal returns the seal of what is read from r.
func NewSeal(r io.Reader) (s Seal, err error) {
	_, _ = rand.Read(s.Key[:])
	s.Sum, s.Size, err = sumOf(r)
	return s, err
}

func sumOf(r io.Reader) ([sha256.Size]byte, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return [sha256.Size]byte(h.Sum(nil)), n, err
}

// crypt encrypts or decrypts what is read from r. A key has one content, so it needs no nonce.
func (s *Seal) crypt(r io.Reader) io.Reader {
	b, _ := aes.NewCipher(s.Key[:]) // whose only error is about the length
	return cipher.StreamReader{S: cipher.NewCTR(b, make([]byte, aes.BlockSize)), R: r}
}

// chunks returns how many chunks an object has: an empty one has one, too.
func (s *Seal) chunks() int64 { return max(1, (s.Size+transferChunk-1)/transferChunk) }

// opened reads the content of an object. It ends with ErrChanged if it is another.
type opened struct {
	content io.Reader
	hash    hash.Hash
	seal    *Seal
}

func (o *opened) Read(p []byte) (int, error) {
	n, err := o.content.Read(p)
	_, _ = o.hash.Write(p[:n])
	if err == io.EOF && [sha256.Size]byte(o.hash.Sum(nil)) != o.seal.Sum {
		err = ErrChanged
	}
	return n, err
}
