package engine

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// records calls take with the records of a bucket: the key, the value, and how old it is
// by the server's clock.
func (s *session) records(ctx context.Context, bucket, keys string, take func(key string, value []byte, age time.Duration)) error {
	var now time.Time
	var all jetstream.KeyWatcher
	err := s.settled(ctx, func(try context.Context) error {
		kv, err := s.js.KeyValue(try, bucket)
		if err != nil {
			return err
		}
		status, err := kv.Status(try)
		if err != nil {
			return err
		}
		now = time.Now()
		if st, ok := status.(*jetstream.KeyValueBucketStatus); ok && !st.StreamInfo().TimeStamp.IsZero() {
			now = st.StreamInfo().TimeStamp
		}
		all, err = kv.Watch(ctx, keys, jetstream.IgnoreDeletes())
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = all.Stop() }()
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-all.Updates():
			if e == nil {
				return nil
			}
			take(e.Key(), e.Value(), max(0, now.Sub(e.Created())))
		}
	}
}

// newEnrolment returns the record of a run that begins now.
func newEnrolment(name string, id identity) Enrolment {
	host, _ := os.Hostname()
	return Enrolment{
		Version: Version, Run: id.Run, Name: name, Epoch: id.Epoch, Host: host, PID: os.Getpid(), Since: time.Now(), State: runRunning,
	}
}

// put writes a record of a bucket, for as long as ttl, or for ever if that is 0. The Put of
// the library sets no TTL.
func (s *session) put(ctx context.Context, subject string, record any, ttl time.Duration) error {
	b, err := json.Marshal(record)
	if err == nil {
		_, err = s.js.Publish(ctx, subject, b, jetstream.WithMsgTTL(ttl))
	}
	return err
}

// enrol writes a run's record.
func (s *session) enrol(ctx context.Context, queue string, e Enrolment, ttl time.Duration) error {
	return s.put(ctx, enrolSubject(queue, e.Run), e, ttl)
}

// unenrol removes a run's record.
func (s *session) unenrol(ctx context.Context, queue, run string) error {
	kv, err := s.js.KeyValue(ctx, runsBucket)
	if err == nil {
		err = kv.Purge(ctx, queue+"."+run, jetstream.PurgeTTL(enrolFor))
	}
	return err
}

// purge removes the messages of a subject.
func (s *session) purge(ctx context.Context, stream, subject string) error {
	st, err := s.js.Stream(ctx, stream)
	if err == nil {
		err = st.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	return err
}
