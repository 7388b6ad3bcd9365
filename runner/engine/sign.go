package engine

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"crew/runner/trust"
)

const (
	signedFor   = 5 * time.Minute
	signContext = "crew-attempt-1\x00" // keeps signatures from meaning anything elsewhere
)

// sign sets the fields of the signature of an attempt that will be sent on subject.
// Unless Expires is set, the signature holds for a few minutes. Nothing else may
// change afterwards.
func sign(k *trust.Key, a *Attempt, subject string) {
	if a.Expires.IsZero() {
		a.Expires = time.Now().Add(signedFor)
	}
	a.Signer = k.Signer
	a.Sig[0] = 1 // any that is not zero has its place in the message
	a.Sig = k.Sign(signedText(a.Encode(), subject))
}

// signLasting is sign for all attempts of a task, on whatever worker of the queue in subject.
func signLasting(k *trust.Key, a *Attempt, subject string) {
	a.Lasting, a.Expires = true, time.Now().Add(keptFor)
	sign(k, a, subject)
}

// common returns what all attempts of a task have in common.
func (a *Attempt) common() *Attempt {
	c := *a
	c.Epoch, c.Number, c.Token, c.Slot, c.Units, c.Needs = 0, 0, Token{}, 0, nil, nil
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

// check returns why an attempt must not run: msg, which came on subject and which a
// was decoded from, is not signed by a trusted key, or no longer. The caller must
// refuse what it has taken before.
func check(t trust.Keys, a *Attempt, subject string, msg []byte) error {
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
			trust.Line(a.Signer) + " to a file of --trust")
	case a.Sig == [64]byte{}, !ed25519.Verify(a.Signer[:], signedText(msg, subject), msg[len(msg)-ed25519.SignatureSize:]):
		return errors.New("its signature is wrong: it was changed on its way")
	case left <= 0:
		return fmt.Errorf("its signature expired %v ago: compare the clocks of the two machines", -left.Round(time.Second))
	}
	return nil
}
