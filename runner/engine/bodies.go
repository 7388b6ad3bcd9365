package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A message that is too long for the streams travels as an object, whose name and content a
// short one tells: who may write objects cannot put another in its place.
type body struct {
	Name string
	Sum  [sha256.Size]byte
}

// mostBody is the longest message that pack and unpack take.
const mostBody = 1 << 30

const bodyPrefix = "body."

// bodyOf returns the name of the object for an attempt's message.
func bodyOf(id ID) string { return bodyPrefix + id.name() }

// bodiesOf returns what begins the names of those of an epoch of a run. A stored task is of
// epoch 0.
func bodiesOf(run string, epoch uint64) string {
	return bodyPrefix + run + "." + strconv.FormatUint(epoch, 10) + "."
}

// pack returns what to send for an attempt's message: the message itself or, if that
// is too long, the name of an object that it makes. The caller then drops the object
// when the attempt has ended.
func (s *session) pack(ctx context.Context, id ID, msg []byte) (send []byte, big bool, err error) {
	if len(msg) <= maxBody {
		return msg, false, nil
	}
	if len(msg) > mostBody {
		return nil, false, fmt.Errorf("it is %d bytes, and the most is %d", len(msg), mostBody)
	}
	b := &body{bodyOf(id), sha256.Sum256(msg)}
	return encode(kindBig, b), true, s.objects.Put(ctx, b.Name, bytes.NewReader(msg))
}

// unpack returns the message that pack was given, of which msg names the object.
func (s *session) unpack(ctx context.Context, msg []byte) ([]byte, error) {
	b, err := decode[body](msg, kindBig)
	if err != nil || !strings.HasPrefix(b.Name, bodyPrefix) {
		return nil, errGarbage
	}
	var whole bytes.Buffer
	err = s.objects.Get(ctx, b.Name, func(r io.Reader) error {
		whole.Reset()
		_, err := io.Copy(&whole, io.LimitReader(r, mostBody+1))
		return err
	})
	if err == nil && sha256.Sum256(whole.Bytes()) != b.Sum {
		return nil, errGarbage
	}
	return whole.Bytes(), err
}
