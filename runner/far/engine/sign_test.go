package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/far/credentials"
	"crew/runner/far/travel"
)

func testAttempt() *Attempt {
	return &Attempt{
		ID: ID{"run", 1, 2, 1, 1}, Token: Token{9}, Slot: 3, Key: "k",
		Argv: []string{"echo", "a"}, Env: []string{"A=b"}, Records: [][]string{{"x", ""}},
		Stdin: []byte("in"), HasStdin: true, Timeout: time.Second, KillAfter: time.Second,
		Trip: travel.Trip{
			Dir: "/tmp", Take: []travel.File{{Path: "p", Sum: [32]byte{1}, Mode: 0o644}}, Return: []string{"r"}, Makes: []string{"m"}, Temp: ".crew-12345678.", Cleanup: true,
		},
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	key := credentials.NewKey()
	other := credentials.NewKey()
	trusted := credentials.Keys{key.Signer: true}
	subject := taskSubject("q", "w", "=", "run")
	checks := func(msg []byte, on string) error {
		a, err := decode[Attempt](msg, kindAttempt)
		if err != nil {
			return err
		}
		return check(trusted, a, on, msg)
	}

	a := testAttempt()
	require.ErrorContains(t, checks(encode(kindAttempt, a), subject), "is not signed")
	sign(key, a, subject)
	msg := encode(kindAttempt, a)
	require.NoError(t, checks(msg, subject))
	require.ErrorContains(t, checks(msg, taskSubject("q", "v", "=", "run")), "is wrong")
	for i := range msg {
		for bit := range 8 {
			msg[i] ^= 1 << bit
			require.Error(t, checks(msg, subject), "byte %d", i)
			msg[i] ^= 1 << bit
		}
	}

	a = testAttempt()
	sign(other, a, subject)
	require.ErrorContains(t, checks(encode(kindAttempt, a), subject), "add "+credentials.Line(other.Signer))
	a.Signer = key.Signer
	require.ErrorContains(t, checks(encode(kindAttempt, a), subject), "is wrong")
	a.Expires = time.Now().Add(-3 * time.Second)
	sign(key, a, subject)
	require.Regexp(t, `expired [3-9]s ago: compare the clocks`, checks(encode(kindAttempt, a), subject).Error())
	a.Expires = time.Now().Add(signedFor + tokensKept)
	sign(key, a, subject)
	require.ErrorContains(t, checks(encode(kindAttempt, a), subject), "6m0s in the future: compare the clocks")
	require.ErrorContains(t, check(nil, a, subject, encode(kindAttempt, a)), "not trusted")
}
