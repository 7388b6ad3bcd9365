package travel

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/outbox"
	"crew/runner/task"
	"crew/runner/wire"
)

// ErrNone is the error of a blob that its owner does not have, or that has no owner any more.
var ErrNone = errors.New("it is not there any more")

const (
	pieceWait  = 5 * time.Second        // after which a piece is asked for again
	piecePause = 200 * time.Millisecond // the same if nobody is there to ask
	flushWait  = 5 * time.Second
	flushes    = 4  // parts of a window of which the server says that they have arrived
	mostAsked  = 32 // pieces of a blob that are asked for at once
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
	nc     *nats.Conn
	user   string
	place  string
	coming *outbox.Wait
	down   *outbox.Window

	// of the goroutine that answers

	up   *outbox.Window
	sent int // bytes since the latest flush

	mu    sync.Mutex
	owned map[string]task.Live // nil until there has been one
}

// Subject returns where the owners of blobs are asked who connect as a user: at * for all.
func Subject(user, place string) string { return "crew.o." + user + "." + place }

// NewBlobs returns the blobs of a user's connection, of which there are none.
func NewBlobs(nc *nats.Conn, user string, waits *outbox.Waits) *Blobs {
	b := &Blobs{nc: nc, user: user, place: rand.Text(), down: outbox.NewWindow(), up: outbox.NewWindow()}
	b.coming = waits.On(func(bytes int64, _ time.Duration) string {
		return "receiving files, outputs or long tasks: " + task.Size(bytes) + " so far"
	})
	return b
}

// Keep makes content a blob, up to a size, until Drop, which closes it. After an error it is closed.
func (b *Blobs) Keep(content task.Live, size int64) (Blob, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owned == nil {
		if _, err := b.nc.Subscribe(Subject(b.user, b.place), b.answer); err != nil {
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
	if !b.up.Try(len(answer)) {
		b.flush()
		_ = b.up.Take(context.Background(), len(answer))
	}
	outbox.Answer(m, answer) // or else it is asked for again
	if b.sent += len(answer); b.sent >= b.up.Size()/flushes {
		b.flush()
	}
}

// flush gives back what was sent once the server says that it has arrived.
func (b *Blobs) flush() {
	sent, began := b.sent, time.Now()
	b.sent = 0
	go func() {
		took := time.Duration(0)
		if b.nc.FlushTimeout(flushWait) == nil {
			took = time.Since(began)
		}
		b.up.Give(sent, took)
	}()
}

// Pull writes a blob of a user's, from an offset on. It goes on until it has all, there is no such blob,
// or ctx is done.
func (b *Blobs) Pull(ctx context.Context, user string, from Blob, at int64, to io.Writer) error {
	if from.Place == "" || strings.ContainsFunc(from.Place, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		return ErrNone
	}
	b.coming.Add(1, 0)
	defer b.coming.Add(-1, 0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		data []byte
		err  error
	}
	asked := make(chan chan answer, mostAsked)
	go func() {
		defer close(asked)
		for ; at < from.Size; at += outbox.Piece {
			p, got := piece{from.Name, at, int(min(outbox.Piece, from.Size-at))}, make(chan answer, 1)
			if b.down.Take(ctx, p.N) != nil {
				return
			}
			go func() {
				data, err := b.ask(ctx, Subject(user, from.Place), p)
				got <- answer{data, err}
			}()
			select {
			case asked <- got:
			case <-ctx.Done():
				return
			}
		}
	}()
	for got := range asked {
		a := <-got
		if a.err == nil {
			b.coming.Add(0, len(a.data))
			_, a.err = to.Write(a.data)
		}
		if a.err != nil {
			return a.err
		}
	}
	return ctx.Err()
}

// ask asks for a piece, for which there is room, until it is answered. While it is not, others have that
// room.
func (b *Blobs) ask(ctx context.Context, owner string, p piece) ([]byte, error) {
	for began := time.Now(); ; began = time.Now() {
		try, cancel := context.WithTimeout(ctx, pieceWait)
		m, err := b.nc.RequestWithContext(try, owner, wire.Append(nil, p))
		cancel()
		took := time.Duration(0)
		if err == nil {
			took = time.Since(began)
		}
		b.down.Give(p.N, took)
		switch {
		case err == nil && len(m.Data) == 1+p.N:
			return m.Data[1:], nil
		case err == nil:
			return nil, ErrNone
		case ctx.Err() != nil, errors.Is(err, nats.ErrConnectionClosed):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(piecePause):
		}
		if err = b.down.Take(ctx, p.N); err != nil {
			return nil, err
		}
	}
}
