package engine

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"crew/runner/task"
	"crew/runner/trust"
)

const (
	engineFile    = "engine" // in the directory of --state
	engineVersion = "crew-engine-2"

	evictWait = time.Second // for one answer
)

// identity names a run on the engine. With --state it is kept as JSON, so that the next
// epoch finds the results of those before.
type identity struct {
	Version string
	Run     string
	Epoch   uint64 // how many submitters the run has had
	Secret  []byte
	User    string      // to whom its results come; "" if it is not known
	Workers []lastKnown // that may still run something of it
}

// lastKnown is what the next epoch has to know of a worker.
type lastKnown struct {
	ID, Host string
	TTL      time.Duration
}

// newIdentity returns the identity of a run that nobody knows yet.
func newIdentity() identity {
	return identity{Version: engineVersion, Run: rand.Text()[:16], Epoch: 1, Secret: []byte(rand.Text()[:aes.BlockSize])}
}

// identify returns the run's identity. With --state it is on disk when identify
// returns.
func (x *submitter) identify() (identity, error) {
	if !x.lasting {
		return newIdentity(), nil
	}
	path := filepath.Join(x.sub.Dir, engineFile)
	id, err := readIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && x.sub.Anew:
		id = newIdentity()
	case err != nil:
		return id, fmt.Errorf("%w: remove %s to begin anew; what workers have finished meanwhile runs again", err, path)
	case id.User != "" && id.User != x.s.user:
		return id, fmt.Errorf("the run was begun as user %s, to whom its results come: go on with these credentials, or remove %s to begin anew", id.User, path)
	default:
		id.Epoch++
	}
	id.User = x.s.user
	return id, id.save(path)
}

func readIdentity(path string) (id identity, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return id, err
	}
	switch err := json.Unmarshal(text, &id); {
	case err == nil && id.Version != engineVersion:
		return id, fmt.Errorf("read %s: it is of version %s", path, id.Version)
	case err != nil || len(id.Secret) != aes.BlockSize || !validName(id.Run):
		return id, fmt.Errorf("read %s: it is damaged", path)
	}
	return id, nil
}

// validName reports whether a name can be a part of a subject.
func validName(name string) bool { return name != "" && !strings.ContainsFunc(name, outOfName) }

func outOfName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
}

// save replaces the file.
func (id *identity) save(path string) error {
	text, err := json.Marshal(id)
	if err == nil {
		err = trust.WritePrivate(path, text)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// remember has the next epoch know of a worker, before that is given anything. It returns false if that
// cannot be. The caller holds the roster's mu.
func (x *submitter) remember(w *worker) bool {
	if !x.lasting || slices.ContainsFunc(x.id.Workers, w.is) {
		return true
	}
	x.id.Workers = append(x.id.Workers, lastKnown{w.id, w.host, w.ttl})
	err := x.id.save(filepath.Join(x.sub.Dir, engineFile))
	if err != nil {
		x.id.Workers = slices.DeleteFunc(x.id.Workers, w.is)
		x.tell("worker " + w.host + " is given nothing: " + err.Error())
	}
	return err == nil
}

// is reports whether it is this worker.
func (w *worker) is(k lastKnown) bool { return k.ID == w.id }

// past holds the results of attempts of earlier epochs, as far as their workers kept them.
type past struct {
	mu      sync.Mutex
	pending map[ID]*flight         // without a worker, nil for those that have ended; nil once no more are taken
	results map[[16]byte][]*flight // with their ends
}

// earlier returns the flight of an attempt of an earlier epoch, or nil if nobody waits
// for it.
func (x *submitter) earlier(from string, id ID, t Token) *flight {
	p := &x.past
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil || id.Epoch >= x.epoch || x.maker.token(from, id.Epoch, id.Task, id.Number) != t {
		return nil
	}
	f, known := p.pending[id]
	if !known {
		f = &flight{id: id, token: t, from: from, subject: taskSubject(x.sub.Queue, from, x.run)}
		p.pending[id] = f
	}
	return f
}

// add adds the result of an attempt of an earlier epoch. It returns false if nobody needs it.
func (p *past) add(f *flight, fin *Final) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending[f.id] != f {
		return true
	}
	p.pending[f.id] = nil // it may come again
	f.final = fin
	if fin.Outcome == task.Lost || fin.Outcome == task.NotRun || fin.Outcome == task.Cancelled || fin.Identity == [16]byte{} {
		f.out.close(true)
		return false
	}
	p.results[fin.Identity] = append(p.results[fin.Identity], f)
	return true
}

// forget gives up the results that attempts of a task had in earlier epochs: it has finished.
func (x *submitter) forget(t *task.Task) {
	p, id := &x.past, resultIdentity(t)
	p.mu.Lock()
	list := p.results[id]
	delete(p.results, id)
	p.mu.Unlock()
	for _, f := range list {
		f.out.close(true)
		x.settle(f)
	}
}

// close takes no more results. Attempts whose results have not come by now run again.
func (p *past) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.pending {
		if f != nil {
			f.out.close(true)
		}
	}
	p.pending = nil
}

// take returns the result that an attempt of a task had in an earlier epoch, or nil.
// Results of attempts before that one are on record already.
func (x *submitter) take(ctx context.Context, a task.Attempt) *task.Result {
	p := &x.past
	if x.epoch == 1 {
		return nil
	}
	id := resultIdentity(a.Task)
	p.mu.Lock()
	list := p.results[id]
	i := slices.IndexFunc(list, func(f *flight) bool { return f.id.Number >= a.Number })
	if i < 0 {
		p.mu.Unlock()
		return nil
	}
	f := list[i]
	p.results[id] = slices.Delete(list, i, i+1)
	p.mu.Unlock()
	f.attempt = a
	x.results.keep(f, attemptKey{a.Task.ID, a.Number}, true)
	x.replay(f)
	return x.result(ctx, f, end{final: f.final})
}

// replay shows the output of an earlier epoch's attempt, where output is shown as it
// comes.
func (x *submitter) replay(f *flight) {
	both := &f.out.both
	if x.sub.Plan.Show != task.ShowLines {
		return
	}
	both[0].To, both[1].To = x.sub.Open(f.attempt)
	for i := range both {
		if s := &both[i]; s.Kept != nil {
			_, _ = s.Kept.WriteTo(s.To)
		}
	}
}

// begin has what earlier epochs left come to an end and bring its results, and lets slots join.
func (x *submitter) begin() {
	defer close(x.begun)
	if x.epoch > 1 {
		x.evict()
		x.past.close()
	}
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.looked = true, time.Now()
	r.empty = r.looked
	// Topics must have learnt of their labels before any task starts.
	first := func(a, b *worker) int {
		return cmp.Or(len(b.said.Labels)-len(a.said.Labels), strings.Compare(a.id, b.id))
	}
	for _, w := range slices.SortedFunc(maps.Values(r.workers), first) {
		x.fit(w)
	}
}

// evict has the workers end what they run of earlier epochs, and bring what they have kept of them. It
// returns once each has answered that it has, or its lease has ended.
func (x *submitter) evict() {
	order := Order{Op: opLeave, ID: ID{Run: x.run, Epoch: x.epoch}}
	x.roster.mu.RLock()
	before := slices.Clone(x.id.Workers)
	x.roster.mu.RUnlock()
	var all sync.WaitGroup
	for _, w := range x.roster.all() {
		if !slices.ContainsFunc(before, w.is) {
			continue
		}
		all.Go(func() {
			for ok := true; ok && x.roster.find(w.id) == w; ok = x.wait(evictWait / 10) { // where nobody listens, the request fails at once
				ctx, cancel := context.WithTimeout(x.ctx, evictWait)
				a, err := x.s.ask(ctx, w.orders, order)
				cancel()
				if err == nil && a.Err == "" {
					return
				}
			}
		})
	}
	all.Wait()
}
