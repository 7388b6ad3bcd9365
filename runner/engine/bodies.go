package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// kindBig is the kind of a message that names an object, which holds the message that
// was too long.
const kindBig = 'b'

// mostBody is the longest message that pack and unpack take.
const mostBody = 1 << 30

const bodyPrefix = "body."

// bodyName returns the name of the object for an attempt's message.
func bodyName(id ID) string {
	return fmt.Sprintf("%s%s.%d.%d.%d", bodyPrefix, id.Run, id.Epoch, id.Task, id.Number)
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
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	objects, err := s.objects(ctx)
	if err != nil {
		return nil, false, err
	}
	name := bodyName(id)
	send = encode(kindBig, func(c *codec) { c.text(&name) })
	return send, true, objects.put(ctx, name, bytes.NewReader(msg))
}

// unpack returns the message that pack was given, of which msg names the object.
func (s *session) unpack(ctx context.Context, msg []byte) ([]byte, error) {
	name, err := decode(msg, kindBig, func(name *string, c *codec) { c.text(name) })
	if err != nil || !strings.HasPrefix(*name, bodyPrefix) {
		return nil, errGarbage
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	objects, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	info, err := objects.GetInfo(ctx, *name)
	if err != nil {
		return nil, err
	}
	if info.Size > mostBody {
		return nil, errGarbage
	}
	return objects.GetBytes(ctx, *name)
}

// dropBody removes what pack has made for an attempt. It would only take up room.
func (s *session) dropBody(ctx context.Context, id ID) {
	if objects, err := s.objects(ctx); err == nil {
		objects.remove(ctx, bodyName(id))
	}
}

// dropBodies removes what pack has made for a run.
func (s *session) dropBodies(ctx context.Context, run string) error {
	objects, err := s.objects(ctx)
	if err != nil {
		return err
	}
	all, err := objects.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	for _, o := range all {
		if strings.HasPrefix(o.Name, bodyPrefix+run+".") {
			objects.remove(ctx, o.Name)
		}
	}
	return err
}
