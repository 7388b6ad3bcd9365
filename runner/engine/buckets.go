package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/travel"
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

// body is the name and the seal of an object that holds an attempt whose message is too long.
type body struct {
	ID
	Token Token
	User  string
	Name  string
	travel.Seal
}

// mostBody is the longest message that pack and unpack take, which have it in memory.
const mostBody = 2 * mostBlock

// The names of the messages of attempts begin with this and their run.
const bodies = "body."

// pack returns what to send for an attempt: its message or, if that is too long, the name of an
// object that it makes. The caller then drops the object when the attempt has ended.
func (s *session) pack(ctx context.Context, name string, a *Attempt) (send []byte, object string, err error) {
	msg := a.Encode()
	if len(msg) <= maxBody {
		return msg, "", nil
	}
	if len(msg) > mostBody {
		return nil, "", fmt.Errorf("it is %d bytes, and the most is %d", len(msg), mostBody)
	}
	content := bytes.NewReader(msg)
	b := &body{ID: a.ID, Token: a.Token, User: a.User}
	b.Seal, _ = travel.NewSeal(content)
	b.Name, err = s.objects.Put(ctx, name, &b.Seal, content)
	return encode(kindBig, b), b.Name, err
}

// unpack returns the message of an attempt.
func (s *session) unpack(ctx context.Context, b *body) ([]byte, error) {
	if !validName(strings.ReplaceAll(b.Name, ".", "")) {
		return nil, errGarbage
	}
	var whole bytes.Buffer
	err := s.objects.Get(ctx, b.Name, &b.Seal, func(r io.Reader) error {
		whole.Reset()
		_, err := io.Copy(&whole, io.LimitReader(r, mostBody+1))
		return err
	})
	if errors.Is(err, travel.ErrChanged) || whole.Len() > mostBody {
		return nil, errGarbage
	}
	return whole.Bytes(), err
}
