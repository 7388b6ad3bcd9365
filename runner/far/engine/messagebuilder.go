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

// maker makes the messages about a run's attempts. It is not changed once it is in use.
type messageBuilder struct {
	load     *wiring.Load
	commands bool // tasks bring commands, not values
	template [32]byte
	text     string                           // the command for people
	secret   []byte                           // makes tokens
	sign     func(a *Attempt, subject string) // nil if nothing needs a signature
	live     bool                             // output is wanted while attempts run
}

func newMessageBuilder(load *wiring.Load) messageBuilder {
	sum, text := digest(load.Command)
	return messageBuilder{load: load, commands: load.Sign != "", template: sum, text: text}
}

// token returns the proof that a result of an attempt must bring, from the worker that was
// given the attempt.
func (b *messageBuilder) token(worker string, id ID) (t Token) {
	h := hmac.New(sha256.New, b.secret)
	fmt.Fprintf(h, "%s %d %d %d", worker, id.Epoch, id.Task, id.Number)
	copy(t[:], h.Sum(nil))
	return t
}

// resultIdentity returns what has to be the same for a result to count in a later epoch. A task that
// makes files is the same one whatever its command and its inputs are, but its result is not.
func resultIdentity(t *task.Task) [16]byte {
	id := t.Identity
	if t.Makes != nil {
		binary.BigEndian.PutUint64(id[:8], binary.BigEndian.Uint64(id[:8])^t.Makes.Stamp.Command)
		binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(id[8:])^t.Makes.Stamp.Inputs)
	}
	return id
}

// mostBlock is the size of the largest block of a stream that travels.
const maxBlock = 64 << 20

// mostBody is the most bytes of a task.
const maxTaskSize = 2 * maxBlock

// message returns what the worker is told of an attempt. A block goes along as a whole.
func (b *messageBuilder) message(id ID, a task.Attempt) (*Attempt, error) {
	t, c := a.Task, b.load
	m := &Attempt{
		ID: id, Identity: resultIdentity(t), Slot: a.Slot.ID, Key: t.Key, Units: a.Units, Needs: workerNeeds(a),
		Stdin: t.Stdin, HasStdin: t.Stdin != nil, Protocol: t.Protocol, Live: b.live,
		Timeout: max(0, cmp.Or(t.Timeout, c.Limit.Timeout)), KillAfter: cmp.Or(t.KillAfter, c.Limit.KillAfter),
	}
	if m.Makes = t.Makes.Files(true); t.Makes != nil {
		m.Temp = t.Makes.Temp
	}
	if !b.commands {
		m.Template, m.Names, m.Caps, m.Records, m.Object = b.template, c.Command.Names, c.Command.Caps, t.Records, t.Object
		return m, nil
	}
	m.Argv, m.Exec, m.Marks = a.Sent(m.Needs)
	m.Shell, m.Dir = t.Shell, cmp.Or(t.Dir, c.Workdir)
	if t.Protocol == task.JSONProtocol {
		m.Stdin = t.Makes.AppendOuts(slices.Clip(t.Stdin))
	}
	m.Env, m.Life = slices.Concat(c.Env, t.Env), c.Life
	if t.Block == nil {
		return m, nil
	}
	if n := t.Block.Size(); n > maxBlock {
		return nil, fmt.Errorf("its block is %d bytes, and other machines take %d: write a smaller --block", n, maxBlock)
	}
	block := bytes.NewBuffer(make([]byte, 0, t.Block.Size()))
	_, err := t.Block.WriteTo(block)
	m.Stdin, m.HasStdin = block.Bytes(), true
	return m, err
}

// needsThere returns what an attempt needs of what its worker offers: what it does not hold.
func workerNeeds(a task.Attempt) (needs []task.Need) {
	for _, n := range a.Task.Terms().Needs {
		if !slices.ContainsFunc(a.Units, func(u task.Units) bool { return u.Name == n.Name }) {
			needs = append(needs, n)
		}
	}
	return needs
}

// unitsOf returns the units that an attempt has held, of which there are those that its worker gave out.
func allUnits(a task.Attempt, there []task.Units) []task.Units {
	units := a.Units
	for _, n := range workerNeeds(a) {
		if s := slices.IndexFunc(there, func(u task.Units) bool { return u.Name == n.Name }); s >= 0 {
			units = append(slices.Clip(units), there[s])
		}
	}
	return units
}

// refuses returns why the run does not use a worker, or "".
func (b *messageBuilder) unusable(p Presence) string {
	switch {
	case p.Version != Version:
		return fmt.Sprintf("worker %s speaks version %d of crew's wire format, this is version %d: install the same crew on all machines",
			p.Host, p.Version, Version)
	case b.commands && !p.Signed:
		return "worker " + p.Host + " runs no signed commands: start it with --allow-commands --trust FILE"
	case !b.commands && p.Template == "":
		return "worker " + p.Host + " has no command of its own: start it with crew worker ... -- " + b.text + ", or give this run --sign FILE"
	case !b.commands && p.Template != fmt.Sprintf("%x", b.template):
		return "worker " + p.Host + " runs " + p.Command + ", not " + b.text + ": write the same command here and there"
	}
	return ""
}

// present returns the workers of a queue that are there, as soon as there is one that the run can use. If
// it uses none of several, that is an error.
func (b *messageBuilder) probeWorkers(ctx context.Context, s *session, queue string) (live []Presence, err error) {
	why := ""
	err = s.discover(ctx, func(m *nats.Msg) bool {
		p, ok := parsePresence(m.Subject, m.Data)
		if !ok || p.State == gone {
			return true
		}
		live = append(live, p)
		if why = b.unusable(p); p.State != ready {
			why = ""
		}
		return why != ""
	}, presenceSubject(queue, allWorkers))
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return live, err
}
