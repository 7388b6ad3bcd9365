package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// records calls take with the records of a bucket: the key, the value, and how old it is
// by the server's clock. A watch of the bucket would not do: what is renewed while it begins comes
// behind what it calls the end.
func (s *session) records(ctx context.Context, bucket, keys string, take func(key string, value []byte, age time.Duration)) error {
	st, err := s.lookup(ctx, "KV_"+bucket)
	if err != nil {
		return err
	}
	var info *jetstream.StreamInfo
	err = s.settled(ctx, func(ctx context.Context) (err error) {
		info, err = st.Info(ctx, jetstream.WithSubjectFilter("$KV."+bucket+"."+keys))
		return err
	})
	if err != nil {
		return err
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		m, err := st.GetLastMsgForSubject(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return err
		case len(m.Data) > 0: // or else it marks that there is none any more
			take(strings.TrimPrefix(subject, "$KV."+bucket+"."), m.Data, max(0, info.TimeStamp.Sub(m.Time)))
		}
	}
	return nil
}

// newEnrolment returns the record of a run that begins now.
func newEnrolment(name, user string, id identity) Enrolment {
	host, _ := os.Hostname()
	return Enrolment{
		Version: Version, Run: id.Run, User: user, Name: name, Epoch: id.Epoch, Host: host, PID: os.Getpid(), Since: time.Now(), State: runRunning,
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
