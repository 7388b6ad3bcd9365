package coproc

import (
	"fmt"
	"slices"

	"crew/runner/decide/task"
)

// maxUnread limits the size of the messages that a worker has not taken from crew.
const maxUnread = 16 * task.MaxMessage

// message is a line for the worker that has the record of a task.
type message struct {
	id   uint64 // of the task
	text string
}

// Send hands a line to the worker of a slot, after the record of a task that runs there. If the task ends
// first, the line is dropped. Send does not wait for the worker, and fails if the worker has not read earlier
// lines. It is safe for concurrent use.
func (w *Workers) Send(slot int, id uint64, line string) error {
	w.mu.Lock()
	l := w.loops[slot]
	w.mu.Unlock()
	if l == nil {
		return fmt.Errorf("worker %d has ended", slot)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unread+len(line) > maxUnread {
		return fmt.Errorf("worker %d has not read earlier messages of %d bytes", slot, l.unread)
	}
	l.unread += len(line)
	l.sent = append(l.sent, message{id, line})
	l.bell.ring()
	return nil
}

// encodeMessages appends the messages for records that are encoded, and drops those for tasks that have ended.
func (w *worker) encodeMessages(b []byte) []byte {
	w.messages = slices.DeleteFunc(w.messages, func(m message) bool {
		i := slices.IndexFunc(w.attempts, func(f *openAttempt) bool { return f.Task.ID == m.id })
		switch {
		case i >= w.encoded || len(b) >= pipeSize:
			return false
		case i >= 0:
			b = w.protocol.Message(b, w.attempts[i].record(), m.text)
		}
		w.mu.Lock()
		w.unread -= len(m.text)
		w.mu.Unlock()
		return true
	})
	return b
}
