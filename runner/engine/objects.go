package engine

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// transferTime bounds how long a file may travel. Without a deadline of its own, the
	// library would give all of it as long as a single request.
	transferTime  = 24 * time.Hour
	transferTry   = 5 // how often it is sent or fetched where something is lost meanwhile
	transferPause = 2 * time.Second

	transferChunk  = 128 << 10
	transferWindow = 8 // chunks whose storage is not confirmed
)

// objects are the files that travel.
type objects struct {
	jetstream.ObjectStore
	js     jetstream.JetStream
	stream jetstream.Stream // behind it
}

// objects looks for the store once it is needed.
func (s *session) objects(ctx context.Context) (o objects, err error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.store.stream != nil {
		return s.store.objects, nil
	}
	o.js = s.js
	if o.ObjectStore, err = s.js.ObjectStore(ctx, filesBucket); err == nil {
		o.stream, err = s.js.Stream(ctx, filesStream)
	}
	if err != nil {
		return o, notReady(err)
	}
	s.store.objects = o
	return o, nil
}

// put makes an object of what is read from r, from its beginning.
func (o objects) put(ctx context.Context, name string, r io.ReadSeeker) (err error) {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	return retry(ctx, func() error {
		if _, err = r.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return o.putOnce(ctx, name, r)
	})
}

// retry transfers an object, and again while that fails for reasons that may pass.
func retry(ctx context.Context, transfer func() error) error {
	for try := 1; ; try++ {
		err := transfer()
		if try == transferTry || !errors.Is(err, jetstream.ErrDigestMismatch) && !passes(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(transferPause):
		}
	}
}

// putOnce is Put, but holds no more of the object in memory, here and in the server, than
// a few chunks. Put took the server from 100 to 500 MB with a file of 1 GiB, and failed, as
// more was on its way than the client allows. Up to 100 MB it takes as long, or less by a
// quarter.
func (o objects) putOnce(ctx context.Context, name string, r io.Reader) (err error) {
	info := jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: name}, Bucket: filesBucket, NUID: nats.NewInbox()[len(nats.InboxPrefix):]}
	defer func() {
		if err != nil {
			_ = o.stream.Purge(ctx, jetstream.WithPurgeSubject(chunkSubject(info.NUID)))
		}
	}()
	h := sha256.New()
	var chunks [transferWindow]struct {
		data [transferChunk]byte
		done jetstream.PubAckFuture // nil if nobody waits for it
	}
	for last := false; !last; info.Chunks++ {
		c := &chunks[info.Chunks%transferWindow]
		if err := stored(ctx, c.done); err != nil {
			return err
		}
		c.done = nil
		n, err := io.ReadFull(r, c.data[:])
		if last = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !last {
			return err
		}
		if n == 0 {
			break
		}
		_, _ = h.Write(c.data[:n])
		info.Size += uint64(n)
		if c.done, err = o.js.PublishAsync(chunkSubject(info.NUID), c.data[:n]); err != nil {
			return err
		}
	}
	for i := range chunks {
		if err := stored(ctx, chunks[i].done); err != nil {
			return err
		}
	}
	info.Digest = jetstream.GetObjectDigestValue(h)
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := nats.NewMsg(metaSubject(name))
	m.Data = b
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	_, err = o.js.PublishMsg(ctx, m)
	return err
}

// stored waits for a chunk to be stored.
func stored(ctx context.Context, f jetstream.PubAckFuture) error {
	if f == nil {
		return nil
	}
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func chunkSubject(id string) string { return "$O." + filesBucket + ".C." + id }
func metaSubject(name string) string {
	return "$O." + filesBucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// write writes an object to path, below dir unless it is absolute. The file is there
// as a whole or not at all.
func (o objects) write(ctx context.Context, dir, path string, f File) error {
	return o.get(ctx, f.Object, func(r io.Reader) error { return replace(dir, path, f.Mode, r) })
}

// get has take read an object. It does so again if not all of it comes: a server that has
// just joined its cluster, or dies, does not say that there is more.
func (o objects) get(ctx context.Context, name string, take func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	return retry(ctx, func() error {
		r, err := o.Get(ctx, name)
		if err == nil {
			err = errors.Join(take(r), r.Close())
		}
		return err
	})
}

// remove removes an object, and what Delete would leave of it. Nothing depends on it.
func (o objects) remove(ctx context.Context, name string) {
	info, err := o.GetInfo(ctx, name, jetstream.GetObjectInfoShowDeleted())
	if err != nil {
		return
	}
	_ = o.stream.Purge(ctx, jetstream.WithPurgeSubject(metaSubject(name)))
	_ = o.stream.Purge(ctx, jetstream.WithPurgeSubject(chunkSubject(info.NUID)))
}

// dropObjects removes the objects whose names begin with one of prefixes.
func (s *session) dropObjects(ctx context.Context, prefixes ...string) error {
	o, err := s.objects(ctx)
	if err != nil {
		return err
	}
	listing, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	all, err := o.List(listing)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	for _, x := range all {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(x.Name, p) }) {
			o.remove(ctx, x.Name)
		}
	}
	return err
}
