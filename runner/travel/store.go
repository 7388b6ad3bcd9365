package travel

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/outbox"
	"crew/runner/task"
)

// ErrNone is the error of an object that is not there.
var ErrNone = errors.New("the hub does not have it any more")

const (
	// transferTime bounds how long a file may travel. Without a deadline of its own, the
	// library would give all of it as long as a single request.
	transferTime  = 24 * time.Hour
	transferTry   = 5 // how often it is sent or fetched where something is lost meanwhile
	transferPause = 2 * time.Second

	transferChunk = outbox.Piece
	mostFetch     = 32 // that are asked for at once

	chunkTime = 30 * time.Second // in which one has to come

	removeTime = 5 * time.Second
)

// Store is an object store. Whoever makes its stream has it take Subjects. It is looked for
// once it is needed. It is safe for concurrent use.
type Store struct {
	name    string // of the stream
	js      jetstream.JetStream
	passes  func(error) bool
	explain func(error) error
	up      *outbox.Window // of the chunks of all objects that go there
	down    *outbox.Window // and of those that come
	going   *outbox.Wait
	coming  *outbox.Wait

	mu     sync.Mutex       // held while it is looked for
	stream jetstream.Stream // nil until it is found
}

// NewStore returns the store in a stream. An error for which passes holds may pass: then
// what travels is tried again. What explain makes of an error of looking for the store is
// the error of all methods.
func NewStore(js jetstream.JetStream, name string, waits *outbox.Waits, passes func(error) bool, explain func(error) error) *Store {
	o := &Store{name: name, js: js, passes: passes, explain: explain, up: outbox.NewWindow(), down: outbox.NewWindow()}
	o.going, o.coming = waits.On(soFar("sending")), waits.On(soFar("receiving"))
	return o
}

// soFar says how much of files, or of messages that are too long for one, has gone or come.
func soFar(doing string) func(int64, time.Duration) string {
	return func(bytes int64, _ time.Duration) string {
		return doing + " files or long messages: " + task.Size(bytes) + " so far"
	}
}

// Subjects begins the subjects of objects. Names follow.
const Subjects = "$O.crew_files.C."

// open looks for the store.
func (o *Store) open(ctx context.Context) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream == nil {
		if o.stream, err = o.js.Stream(ctx, o.name); err != nil {
			o.stream, err = nil, o.explain(err)
		}
	}
	return err
}

// Put makes an object of a content, whose seal is s. It returns the object's name, which begins
// with the given one. What it leaves of one that fails goes with RemoveAll.
func (o *Store) Put(ctx context.Context, name string, s *Seal, content io.ReadSeeker) (object string, err error) {
	err = o.retry(ctx, func(ctx context.Context) error {
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return err
		}
		object = name + nats.NewInbox()[len(nats.InboxPrefix)-1:]
		return o.putOnce(ctx, object, s.chunks(), s.crypt(content))
	})
	return object, err
}

// retry transfers an object, and again while that fails for reasons that may pass.
func (o *Store) retry(ctx context.Context, transfer func(context.Context) error) error {
	if err := o.open(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	for try := 1; ; try++ {
		err := transfer(ctx)
		if try == transferTry || !errors.Is(err, ErrChanged) && !errors.Is(err, jetstream.ErrConsumerDeleted) && !o.passes(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(transferPause):
		}
	}
}

// putOnce stores an object, of which there is no more on its way than the window has room for. Put
// of the library took the server from 100 to 500 MB with a file of 1 GiB, and failed, as more was
// on its way than the client allows. Up to 100 MB it takes as long, or less by a quarter.
func (o *Store) putOnce(ctx context.Context, name string, chunks int64, r io.Reader) (err error) {
	o.going.Add(1, 0)
	defer o.going.Add(-1, 0)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer func() {
		if err != nil {
			cancel(err)
		}
		if all.Wait(); ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	for ; chunks > 0; chunks-- {
		data := make([]byte, transferChunk)
		n, err := io.ReadFull(r, data)
		if err != nil && (chunks > 1 || err != io.EOF && err != io.ErrUnexpectedEOF) {
			return err
		}
		if err = o.up.Take(ctx, n); err != nil {
			return err
		}
		began := time.Now()
		done, err := o.js.PublishAsync(Subjects+name, data[:n])
		if err != nil {
			o.up.Give(n, 0)
			return err
		}
		all.Go(func() {
			took := time.Duration(0)
			if err := stored(ctx, done); err != nil {
				cancel(err)
			} else {
				took = time.Since(began)
				o.going.Add(0, n)
			}
			o.up.Give(n, took)
		})
	}
	return nil
}

// stored waits for a chunk to be stored.
func stored(ctx context.Context, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes an object to path, below dir unless it is absolute. The file is there
// as a whole or not at all.
func (o *Store) write(ctx context.Context, dir, path string, f File) error {
	return o.Get(ctx, f.Object, &f.Seal, func(r io.Reader) error { return replace(dir, path, f.Mode, r) })
}

// Get has take read the content of an object, up to its end, whose seal is s. It does so again if
// that is another one: a server that has just joined its cluster, or dies, does not say that there
// is more. If it stays so, the error is ErrChanged.
func (o *Store) Get(ctx context.Context, name string, s *Seal, take func(io.Reader) error) error {
	return o.retry(ctx, func(ctx context.Context) error {
		return o.getOnce(ctx, name, s.chunks(), func(r io.Reader) error { return take(&opened{s.crypt(r), sha256.New(), s}) })
	})
}

// getOnce has no more on its way than the window has room for: over a slow connection, leases could
// not be renewed behind more. The last chunk may be all, and tells whether the object is there.
func (o *Store) getOnce(ctx context.Context, name string, n int64, take func(io.Reader) error) error {
	o.coming.Add(1, 0)
	defer o.coming.Add(-1, 0)
	if err := o.down.Take(ctx, transferChunk); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, chunkTime)
	defer cancel()
	began := time.Now()
	last, err := o.stream.GetLastMsgForSubject(asking, Subjects+name)
	o.down.Give(transferChunk, time.Since(began))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return ErrNone
	}
	if err != nil {
		return err
	}
	o.coming.Add(0, len(last.Data))
	r := &chunks{ctx: ctx, left: n - 1, last: last.Data, down: o.down, wait: o.coming}
	if n > 1 {
		c, err := o.stream.CreateConsumer(asking, jetstream.ConsumerConfig{
			FilterSubject: Subjects + name, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: 2 * chunkTime,
		})
		if err != nil {
			return err
		}
		r.from = c
		defer func() {
			r.give(0)
			_ = o.stream.DeleteConsumer(ctx, c.CachedInfo().Name)
		}()
	}
	return take(r)
}

// chunks reads an object.
type chunks struct {
	ctx  context.Context
	from jetstream.Consumer     // nil if there is but the last one
	msgs jetstream.MessageBatch // nil if nothing is asked for
	left int64                  // that are to come before the last one
	last []byte                 // nil once it is read
	part []byte                 // of the latest one, that was not read yet

	wait  *outbox.Wait
	down  *outbox.Window
	taken int       // of it
	open  int       // messages of those that were asked for
	began time.Time // when they were
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.part) == 0 {
		switch {
		case c.left > 0:
			m, err := c.next()
			if err != nil {
				return 0, err
			}
			c.left--
			c.part = m.Data()
			c.wait.Add(0, len(c.part))
		case c.last != nil:
			c.part, c.last = c.last, nil
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, c.part)
	c.part = c.part[n:]
	return n, nil
}

// next waits for a chunk.
func (c *chunks) next() (m jetstream.Msg, err error) {
	if c.open == 0 {
		if err = c.ask(); err != nil {
			return nil, err
		}
	}
	select {
	case m = <-c.msgs.Messages(): // nil once no more comes
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
	if err = c.msgs.Error(); m == nil && (err == nil || errors.Is(err, jetstream.ErrNoHeartbeat)) {
		err = context.DeadlineExceeded
	}
	if m == nil {
		return nil, err
	}
	if c.open--; c.open == 0 {
		c.give(time.Since(c.began))
	}
	return m, nil
}

// ask asks for as many chunks as there is room for.
func (c *chunks) ask() (err error) {
	if c.taken, err = c.down.TakeUpTo(c.ctx, transferChunk, int(min(c.left, mostFetch))); err != nil {
		return err
	}
	c.open, c.began = c.taken/transferChunk, time.Now()
	c.msgs, err = c.from.Fetch(c.open, jetstream.FetchMaxWait(chunkTime))
	return err
}

// give gives back what was taken of the window.
func (c *chunks) give(took time.Duration) {
	c.down.Give(c.taken, took)
	c.taken = 0
}

// Remove removes an object. Nothing depends on it.
func (o *Store) Remove(ctx context.Context, name string) {
	if o.open(ctx) == nil {
		_ = o.stream.Purge(ctx, jetstream.WithPurgeSubject(Subjects+name))
	}
}

// RemoveAll removes the objects whose names begin with some words.
func (o *Store) RemoveAll(ctx context.Context, words string) error {
	err := o.open(ctx)
	if err == nil {
		err = o.stream.Purge(ctx, jetstream.WithPurgeSubject(Subjects+words+".>"))
	}
	return err
}
