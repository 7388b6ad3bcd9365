package travel

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/far/outbox"
	"crew/runner/far/wire"
)

// ErrNone is returned for a blob that its owner does not have, or whose owner is gone.
var ErrNone = errors.New("it is no longer available")

const (
	flushWait   = 5 * time.Second
	maxRequests = 32 // requests for pieces of a blob that are open at once
)

// Blob names content that stays with its owner until another process has fetched it. Only the owner and
// the processes that it tells know the name.
type Blob struct {
	Place string // part of the subject on which the owner answers
	Name  string
	Size  int64
}

// Blobs holds the blobs that a process owns, and fetches those of others. In each direction it keeps as
// much data in transit as arrives within a second. It is safe for concurrent use.
type Blobs struct {
	requester *outbox.Requester
	user      string
	place     string
	down, up  *outbox.Window

	mu    sync.Mutex
	owned map[string]task.Live // by name; nil before the first Add
}

// Subject returns the subject on which the owner of blobs answers requests, if it connects as user.
// place may be * for all owners.
func Subject(user, place string) string { return "crew.o." + user + "." + place }

// NewBlobs returns an empty set of blobs of a user. It requests blobs of others on the same connection.
func NewBlobs(requester *outbox.Requester, user string) *Blobs {
	return &Blobs{requester: requester, user: user, place: rand.Text(), down: outbox.NewWindow(), up: outbox.NewWindow()}
}

// Add makes the first size bytes of content a blob until Drop, which closes content.
func (b *Blobs) Add(content task.Live, size int64) Blob {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owned == nil {
		_, _ = b.requester.Conn.Subscribe(Subject(b.user, b.place), b.answer) // this fails if the connection is closed for good
		b.owned = map[string]task.Live{}
	}
	k := Blob{b.place, rand.Text(), size}
	b.owned[k.Name] = content
	return k
}

// Drop removes blobs and closes their content. It ignores blobs that do not exist.
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

// Count returns the number of blobs that this process owns.
func (b *Blobs) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owned)
}

// piece requests part of a blob. The answer is one byte followed by that part, or only the byte if
// there is no such part.
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
		if content != nil {
			part := make([]byte, 1+p.N)
			if n, _ := content.ReadAt(part[1:], p.At); n == p.N {
				answer = part
			}
		}
	}
	_ = b.up.Acquire(context.Background(), len(answer))
	began := time.Now()
	outbox.Answer(m, answer) // if this fails, the request is repeated
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushWait)
		defer cancel()
		took := time.Duration(0)
		if b.requester.Conn.FlushWithContext(ctx) == nil { // the server has received it
			took = time.Since(began)
		}
		b.up.Release(len(answer), b.requester.Delay(took))
	}()
}

// Pull copies a user's blob, from offset at to its end, to a writer. It returns when everything is
// written, when there is no such blob, or when ctx is done.
func (b *Blobs) Pull(ctx context.Context, user string, from Blob, at int64, to io.Writer) error {
	if from.Place == "" || strings.Trim(from.Place, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		return ErrNone
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := from.Size - at
	requests := make(chan chan []byte, maxRequests)
	go func() {
		defer close(requests)
		for n := int64(outbox.Short); at < from.Size; at, n = at+n, outbox.Piece { // the first one shows the latency
			p, got := piece{from.Name, at, int(min(n, from.Size-at))}, make(chan []byte, 1) // receives the answer: a byte and the piece
			if b.down.Acquire(ctx, p.N) != nil {
				return
			}
			go func() { got <- b.requester.Request(ctx, b.down, p.N, Subject(user, from.Place), wire.Append(nil, p)) }()
			select {
			case requests <- got:
			case <-ctx.Done():
				return
			}
		}
	}()
	n := int64(outbox.Short)
	for got := range requests {
		data := <-got
		if int64(len(data)) != 1+min(n, left) {
			return cmp.Or(ctx.Err(), ErrNone)
		}
		n = outbox.Piece
		left -= int64(len(data)) - 1
		if _, err := to.Write(data[1:]); err != nil {
			return err
		}
	}
	return ctx.Err()
}
