package travel

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/outbox"
	"crew/runner/task"
)

const (
	// transferTime bounds how long a file may travel. Without a deadline of its own, the
	// library would give all of it as long as a single request.
	transferTime  = 24 * time.Hour
	transferTry   = 5 // how often it is sent or fetched where something is lost meanwhile
	transferPause = 2 * time.Second

	transferChunk = outbox.Piece
	mostFetch     = 32 // that are asked for at once

	chunkTime = 30 * time.Second // in which one has to come

	listTime = 5 * time.Second // to list the objects
)

// Store is an object store. Whoever makes its stream has it take Subjects. It is looked for
// once it is needed. It is safe for concurrent use.
type Store struct {
	bucket  string
	js      jetstream.JetStream
	passes  func(error) bool
	explain func(error) error
	up      *outbox.Window // of the chunks of all objects that go there
	down    *outbox.Window // and of those that come
	going   *outbox.Wait
	coming  *outbox.Wait

	mu     sync.Mutex // held while it is looked for
	store  jetstream.ObjectStore
	stream jetstream.Stream // behind it; nil until it is found
}

// NewStore returns the store of a bucket. An error for which passes holds may pass: then
// what travels is tried again. What explain makes of an error of looking for the store is
// the error of all methods.
func NewStore(js jetstream.JetStream, bucket string, waits *outbox.Waits, passes func(error) bool, explain func(error) error) *Store {
	o := &Store{bucket: bucket, js: js, passes: passes, explain: explain, up: outbox.NewWindow(), down: outbox.NewWindow()}
	o.going, o.coming = waits.On(soFar("sending")), waits.On(soFar("receiving"))
	return o
}

// soFar says how much of files, or of messages that are too long for one, has gone or come.
func soFar(doing string) func(int64, time.Duration) string {
	return func(bytes int64, _ time.Duration) string {
		return doing + " files or long messages: " + task.Size(bytes) + " so far"
	}
}

// Subjects returns the subjects of a bucket.
func Subjects(bucket string) []string {
	o := &Store{bucket: bucket}
	return []string{o.chunkSubject(">"), "$O." + bucket + ".M.>"}
}

// open looks for the store.
func (o *Store) open(ctx context.Context) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream != nil {
		return nil
	}
	if o.store, err = o.js.ObjectStore(ctx, o.bucket); err == nil {
		o.stream, err = o.js.Stream(ctx, "OBJ_"+o.bucket)
	}
	if err != nil {
		return o.explain(err)
	}
	return nil
}

// Put makes an object of a content, whose seal is s.
func (o *Store) Put(ctx context.Context, name string, s *Seal, content io.ReadSeeker) error {
	return o.retry(ctx, func(ctx context.Context) error {
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return o.putOnce(ctx, name, s.crypt(content))
	})
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

// putOnce is the Put of the library, but has no more of all objects on its way than the window has
// room for. Put took the server from 100 to 500 MB with a file of 1 GiB, and failed, as
// more was on its way than the client allows. Up to 100 MB it takes as long, or less by a
// quarter.
func (o *Store) putOnce(ctx context.Context, name string, r io.Reader) (err error) {
	o.going.Add(1, 0)
	defer o.going.Add(-1, 0)
	info := jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: name}, Bucket: o.bucket, NUID: nats.NewInbox()[len(nats.InboxPrefix):]}
	defer func() {
		if err != nil {
			_ = o.stream.Purge(ctx, jetstream.WithPurgeSubject(o.chunkSubject(info.NUID)))
		}
	}()
	if err = o.putChunks(ctx, &info, r); err != nil {
		return err
	}
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := nats.NewMsg(o.metaSubject(name))
	m.Data = b
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	_, err = o.js.PublishMsg(ctx, m)
	return err
}

// putChunks stores the content of an object, and notes its length.
func (o *Store) putChunks(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader) (err error) {
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
	for last := false; !last; info.Chunks++ {
		data := make([]byte, transferChunk)
		n, err := io.ReadFull(r, data)
		if last = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !last {
			return err
		}
		if n == 0 {
			return nil
		}
		info.Size += uint64(n)
		if err = o.up.Take(ctx, n); err != nil {
			return err
		}
		began := time.Now()
		done, err := o.js.PublishAsync(o.chunkSubject(info.NUID), data[:n])
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

func (o *Store) chunkSubject(id string) string { return "$O." + o.bucket + ".C." + id }
func (o *Store) metaSubject(name string) string {
	return "$O." + o.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
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
		return o.getOnce(ctx, name, func(r io.Reader) error { return take(&opened{s.crypt(r), sha256.New(), s}) })
	})
}

// getOnce is the Get of the library, but has no more on its way than the window has room for: over
// a slow connection, leases could not be renewed behind more.
func (o *Store) getOnce(ctx context.Context, name string, take func(io.Reader) error) error {
	o.coming.Add(1, 0)
	defer o.coming.Add(-1, 0)
	info, err := o.store.GetInfo(ctx, name)
	if err != nil {
		return err
	}
	r := &chunks{ctx: ctx, info: info, down: o.down, wait: o.coming}
	if info.Chunks > 0 {
		c, err := o.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
			FilterSubject: o.chunkSubject(info.NUID), AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: 2 * chunkTime,
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
	info *jetstream.ObjectInfo
	from jetstream.Consumer     // nil if there is none
	msgs jetstream.MessageBatch // nil if nothing is asked for
	n    uint32                 // that have come
	part []byte                 // of the last one, that was not read yet

	wait  *outbox.Wait
	down  *outbox.Window
	taken int       // of it
	left  int       // messages of those that were asked for
	began time.Time // when they were
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.part) == 0 {
		if c.n == c.info.Chunks {
			return 0, io.EOF
		}
		m, err := c.next()
		if err != nil {
			return 0, err
		}
		c.n++
		c.part = m.Data()
		c.wait.Add(0, len(c.part))
	}
	n := copy(p, c.part)
	c.part = c.part[n:]
	return n, nil
}

// next waits for a chunk.
func (c *chunks) next() (m jetstream.Msg, err error) {
	if c.left == 0 {
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
	if c.left--; c.left == 0 {
		c.give(time.Since(c.began))
	}
	return m, nil
}

// ask asks for as many chunks as there is room for.
func (c *chunks) ask() (err error) {
	if c.taken, err = c.down.TakeUpTo(c.ctx, transferChunk, min(int(c.info.Chunks-c.n), mostFetch)); err != nil {
		return err
	}
	c.left, c.began = c.taken/transferChunk, time.Now()
	c.msgs, err = c.from.Fetch(c.left, jetstream.FetchMaxWait(chunkTime))
	return err
}

// give gives back what was taken of the window.
func (c *chunks) give(took time.Duration) {
	c.down.Give(c.taken, took)
	c.taken = 0
}

// Remove removes an object, and what Delete would leave of it. Nothing depends on it.
func (o *Store) Remove(ctx context.Context, name string) {
	if o.open(ctx) != nil {
		return
	}
	info, err := o.store.GetInfo(ctx, name, jetstream.GetObjectInfoShowDeleted())
	if err != nil {
		return
	}
	_ = o.stream.Purge(ctx, jetstream.WithPurgeSubject(o.metaSubject(name)))
	_ = o.stream.Purge(ctx, jetstream.WithPurgeSubject(o.chunkSubject(info.NUID)))
}

// RemoveAll removes the objects with certain names.
func (o *Store) RemoveAll(ctx context.Context, which func(name string) bool) error {
	if err := o.open(ctx); err != nil {
		return err
	}
	listing, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	all, err := o.store.List(listing)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	for _, x := range all {
		if which(x.Name) {
			o.Remove(ctx, x.Name)
		}
	}
	return err
}
