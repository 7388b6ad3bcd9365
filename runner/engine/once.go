package engine

import "sync"

// once gives notices, each as long as no other has come since. It is safe for
// concurrent use.
type once struct {
	notice func(string) // nil for none
	mu     sync.Mutex
	last   string
}

func (o *once) say(text string) {
	o.mu.Lock()
	again := text == o.last
	o.last = text
	o.mu.Unlock()
	if !again && o.notice != nil {
		o.notice(text)
	}
}
