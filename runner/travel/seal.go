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
	Key [16]byte          // for AES
	Sum [sha256.Size]byte // of the content
}

// ErrChanged is the error of reading an object with another content than its seal's.
var ErrChanged = errors.New("somebody has changed it on its way")

// NewSeal returns the seal of what is read from r.
func NewSeal(r io.Reader) (s Seal, err error) {
	_, _ = rand.Read(s.Key[:])
	s.Sum, err = sumOf(r)
	return s, err
}

func sumOf(r io.Reader) ([sha256.Size]byte, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return [sha256.Size]byte(h.Sum(nil)), err
}

// stream returns what encrypts and decrypts. A key has one content, so it needs no nonce.
func (s *Seal) stream() cipher.Stream {
	b, _ := aes.NewCipher(s.Key[:]) // whose only error is about the length
	return cipher.NewCTR(b, make([]byte, aes.BlockSize))
}

// Closed returns the object of a content.
func (s *Seal) Closed(content io.ReadSeeker) io.ReadSeeker { return &closed{s, content, s.stream()} }

// Opened returns the content of an object. Reading it ends with ErrChanged if it is another.
func (s *Seal) Opened(object io.Reader) io.Reader {
	return &opened{cipher.StreamReader{S: s.stream(), R: object}, s, sha256.New()}
}

type closed struct {
	seal    *Seal
	content io.ReadSeeker
	stream  cipher.Stream
}

func (c *closed) Read(p []byte) (int, error) {
	return cipher.StreamReader{S: c.stream, R: c.content}.Read(p)
}

// Seek goes to the beginning, the only place that it can go to.
func (c *closed) Seek(int64, int) (int64, error) {
	c.stream = c.seal.stream()
	return c.content.Seek(0, io.SeekStart)
}

type opened struct {
	r    cipher.StreamReader
	seal *Seal
	hash hash.Hash
}

func (o *opened) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	_, _ = o.hash.Write(p[:n])
	if err == io.EOF && [sha256.Size]byte(o.hash.Sum(nil)) != o.seal.Sum {
		err = ErrChanged
	}
	return n, err
}
