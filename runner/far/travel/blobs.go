package travel

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/wire"
)

// ErrNone is the error of a blob that its owner does not have, or that has no owner any more.
var ErrNone = errors.New("it is not there any more")

const (
	flushWait = 5 * time.Second
	mostAsked = 32 // pieces of a blob that are asked for at once
)

// Blob is content that stays with its owner until who needs it has it. Only its owner and those it
// tells know the name.
type Blob struct {
	Place string // where the owner is asked
	Name  string
	Size  int64
}

// Blobs are those that a process owns, and its way to those of others. What is on its way at once, in
// either direction, is as much as arrives within a second. It is safe for concurrent use.
type Blobs struct {
	asker    *outbox.Asker
	user     string
	place    string
	down, up *outbox.Window
	pulls    atomic.Int64 // that are under way
	came     atomic.Int64 // bytes

	mu    sync.Mutex
	owned map[string]task.Live // nil until there has been one
}

// Subject returns where the owners of blobs are asked who connect as a user: at * for all.
func Subject(user, place string) string { return "crew.o." + user + "." + place }

// NewBlobs returns the blobs of a user, who asks for others' on the same connection. There are none.
func NewBlobs(asker *outbox.Asker, user string, waits *outbox.Waits) *Blobs {
	b := &Blobs{asker: asker, user: user, place: rand.Text(), down: outbox.NewWindow(), up: outbox.NewWindow()}
	waits.On(func(time.Duration) (int64, string) {
		came := b.came.Load()
		if b.pulls.Load() == 0 {
			return came, ""
		}
		return came, "receiving files, outputs or long tasks: " + task.Size(came) + " so far"
	})
	return b
}

// Keep makes content a blob, up to a size, until Drop, which closes it. After an error it is closed.
func (b *Blobs) Keep(content task.Live, size int64) (Blob, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owned == nil {
		if _, err := b.asker.Conn.Subscribe(Subject(b.user, b.place), b.answer); err != nil {
			_ = content.Close()
			return Blob{}, err
		}
		b.owned = map[string]task.Live{}
	}
	k := Blob{b.place, rand.Text(), size}
	b.owned[k.Name] = content
	return k, nil
}

// Drop gives up blobs. Those that there are not do not matter.
func (b *Blobs) Drop(blobs ...Blob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range blobs {
		if content := b.owned[k.Name]; content != nil {
			delete(b.owned, k.Name)
			_ = content.Close()
		}
	}
}

// Count returns how many blobs there are.
func (b *Blobs) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owned)
}

// piece asks for a part of a blob. The answer is a byte and that part, or just the byte.
type piece struct {
	Name string
	At   int64
	N    int
}

func (b *Blobs) answer(m *nats.Msg) {
	var p piece
	answer := []byte{'-'}
	if err := wire.Decode(m.Data, &p); err == nil && p.At >= 0 && p.N > 0 && p.N <= outbox.Piece {
		b.mu.Lock()
		content := b.owned[p.Name]
		b.mu.Unlock()
		part := make([]byte, 1+p.N)
		if content != nil {
			if n, _ := content.ReadAt(part[1:], p.At); n == p.N {
				answer = part
			}
		}
	}
	_ = b.up.Take(context.Background(), len(answer))
	began := time.Now()
	outbox.Answer(m, answer) // or else it is asked for again
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushWait)
		defer cancel()
		took := time.Duration(0)
		if b.asker.Conn.FlushWithContext(ctx) == nil { // the server has it
			took = time.Since(began)
		}
		b.up.Give(len(answer), took)
	}()
}

// Pull writes a blob of a user's, from an offset on. It goes on until it has all, there is no such blob,
// or ctx is done.
func (b *Blobs) Pull(ctx context.Context, user string, from Blob, at int64, to io.Writer) error {
	if from.Place == "" || strings.ContainsFunc(from.Place, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		return ErrNone
	}
	b.pulls.Add(1)
	defer b.pulls.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := from.Size - at
	asked := make(chan chan []byte, mostAsked)
	go func() {
		defer close(asked)
		for ; at < from.Size; at += outbox.Piece {
			p, got := piece{from.Name, at, int(min(outbox.Piece, from.Size-at))}, make(chan []byte, 1) // a byte, and the piece
			if b.down.Take(ctx, p.N) != nil {
				return
			}
			go func() { got <- b.asker.Ask(ctx, b.down, p.N, Subject(user, from.Place), wire.Append(nil, p)) }()
			select {
			case asked <- got:
			case <-ctx.Done():
				return
			}
		}
	}()
	for got := range asked {
		data := <-got
		if int64(len(data)) != 1+min(outbox.Piece, left) {
			return cmp.Or(ctx.Err(), ErrNone)
		}
		left -= int64(len(data)) - 1
		b.came.Add(int64(len(data)))
		if _, err := to.Write(data[1:]); err != nil {
			return err
		}
	}
	return ctx.Err()
}
