package outbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An answer that arrives while its request is about to be repeated is not lost.
func TestAnswerDuringRepeat(t *testing.T) {
	a := &Requester{}
	for range 100_000 {
		answers, got := make(chan []byte, 1), make(chan []byte)
		go func() {
			answer := <-answers
			if answer == nil {
				answer = <-answers
			}
			got <- answer
		}()
		a.mu.Lock()
		deliver(answers, nil)
		deliver(answers, []byte("a"))
		a.mu.Unlock()
		require.Equal(t, []byte("a"), <-got)
	}
}
