package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"crew/runner/decide/task"
	"crew/runner/front/wiring"
)

// messageBuilder builds the messages about a run's attempts. It must not be changed once it is in use.
type messageBuilder struct {
	base   Attempt                          // what the attempts have in common
	Job                                     // if Signed, tasks bring commands, not values
	secret []byte                           // key from which tokens are derived
	sign   func(a *Attempt, subject string) // nil if attempts are not signed
}

func newMessageBuilder(c *wiring.Call) messageBuilder {
	sum, text := digest(c.Options)
	b := messageBuilder{Job: Job{fmt.Sprintf("%x", sum), text, c.Engine.Sign != "" || len(c.Hosts) > 0}}
	limit := &c.Failure.Limit
	b.base = Attempt{Timeout: limit.Timeout, KillAfter: limit.KillAfter, Bound: c.Plan.Bound}
	if b.Signed {
		b.base.Dir, b.base.Env, b.base.Life = c.Pool.Workdir, c.Env, c.Coproc.Life
		return b
	}
	b.base.Template, b.base.Names = sum, c.Names
	for _, limit := range c.AllCaps() {
		b.base.Caps = append(b.base.Caps, limit.Name)
	}
	return b
}

// token returns the token that a result of an attempt must bring, if the attempt was sent to that
// worker.
func (b *messageBuilder) token(worker string, id ID) (t Token) {
	h := hmac.New(sha256.New, b.secret)
	fmt.Fprintf(h, "%s %d %d %d %d", worker, id.Epoch, id.Task, id.Number, id.Sent)
	copy(t[:], h.Sum(nil))
	return t
}

// resultIdentity returns the identity that a result and a task must share for the result to count in a
// later epoch. For a task that makes files it depends on the command and the inputs, which
// Task.Identity does not.
func resultIdentity(t *task.Task) [16]byte {
	id := t.Identity
	if t.Makes != nil {
		binary.BigEndian.PutUint64(id[:8], binary.BigEndian.Uint64(id[:8])^t.Makes.Stamp.Command)
		binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(id[8:])^t.Makes.Stamp.Inputs)
	}
	return id
}

// maxBlock is the most bytes of a block that a task reads on another machine.
const maxBlock = 64 << 20

// maxTaskSize is the most bytes of an encoded attempt or task.
const maxTaskSize = 2 * maxBlock

// message returns the message for an attempt. A block becomes its Stdin.
func (b *messageBuilder) message(id ID, a task.Attempt) (*Attempt, error) {
	t, message := a.Task, b.base
	m := &message
	m.ID, m.Identity, m.Slot, m.Key, m.Units, m.Needs = id, resultIdentity(t), a.Slot.ID, t.Key, a.Units, workerNeeds(a)
	m.Stdin, m.HasStdin, m.Protocol = t.Stdin, t.Stdin != nil, t.Protocol
	m.Timeout, m.KillAfter = max(0, cmp.Or(t.Timeout, m.Timeout)), max(1, cmp.Or(t.KillAfter, m.KillAfter)) // 0 means the worker's
	if m.Makes = t.Makes.Files(true); t.Makes != nil {
		m.Temp = t.Makes.Temp
	}
	if !b.Signed {
		m.Records, m.Object = t.Records, t.Object
		return m, nil
	}
	m.Argv, m.Exec, m.Marks = t.Argv, t.Exec, t.Marks
	m.Shell, m.Dir = t.Shell, cmp.Or(t.Dir, m.Dir)
	if t.Protocol == task.JSONProtocol {
		m.Stdin = t.Makes.AppendOuts(slices.Clip(t.Stdin))
	}
	m.Env = slices.Concat(m.Env, t.Env)
	if t.Block == nil {
		return m, nil
	}
	if n := t.Block.Size(); n > maxBlock {
		return nil, fmt.Errorf("its block is %d bytes, and the limit for other machines is %d: write a smaller --block", n, maxBlock)
	}
	block := bytes.NewBuffer(make([]byte, 0, t.Block.Size()))
	_, err := t.Block.WriteTo(block)
	m.Stdin, m.HasStdin = block.Bytes(), true
	return m, err
}

// workerNeeds returns the needs of an attempt that its worker has to allot: those without units of the
// run.
func workerNeeds(a task.Attempt) []task.Need {
	return slices.DeleteFunc(slices.Clone(a.Task.Terms().Needs), func(n task.Need) bool {
		return slices.ContainsFunc(a.Units, func(u task.Units) bool { return u.Name == n.Name })
	})
}

// allUnits returns the units that an attempt held; there lists those allotted by its worker.
func allUnits(a task.Attempt, there []task.Units) []task.Units {
	units := a.Units
	for _, n := range workerNeeds(a) {
		if s := slices.IndexFunc(there, func(u task.Units) bool { return u.Name == n.Name }); s >= 0 {
			units = append(slices.Clip(units), there[s])
		}
	}
	return units
}

// unusable returns why a run of that wire format cannot use a worker, or "".
func (k *Job) unusable(p *Presence, version int) string {
	switch {
	case p.Version != version:
		return fmt.Sprintf("worker %s speaks version %d of crew's wire format, not %d: install the same version of crew on all machines",
			p.Host, p.Version, version)
	case k.Signed && !p.Signed:
		return "worker " + p.Host + " runs no signed commands: start it with --allow-commands --trust FILE"
	case !k.Signed && p.Template == "":
		return "worker " + p.Host + " has no command of its own: start it with crew worker ... -- " + k.Command + ", or give this run --sign FILE"
	case !k.Signed && p.Template != k.Template:
		return "worker " + p.Host + " runs " + p.Command + ", not " + k.Command + ": write the same command here and there"
	}
	return ""
}

// probeWorkers looks for workers of a queue until one is usable or not ready. If there are workers but
// all are ready and unusable, it returns an error.
func (b *messageBuilder) probeWorkers(ctx context.Context, s *session, queue string) error {
	why := ""
	err := s.discover(ctx, func(m *nats.Msg) bool {
		p, ok := parsePresence(m.Subject, m.Data)
		if !ok || p.State == gone {
			return true
		}
		if why = b.unusable(&p, Version); p.State != ready {
			why = ""
		}
		return why != ""
	}, presenceSubject(queue, allWorkers))
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return err
}
