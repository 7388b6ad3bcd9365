package outbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An answer that comes while its question is about to be asked again reaches it.
func TestAnswerBesideAgain(t *testing.T) {
	a := &Asker{}
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
		give(answers, nil)
		give(answers, []byte("a"))
		a.mu.Unlock()
		require.Equal(t, []byte("a"), <-got)
	}
}
