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

	"crew/runner/decide/task"
	"crew/runner/keep/trust"
)

const (
	engineFile    = "engine" // file in the directory of --state
	engineVersion = "crew-engine-2"

	epochWait = time.Second // limit for one answer
)

// identity identifies a run. With --state it is stored as JSON, so that the next epoch finds the
// results of earlier ones.
type identity struct {
	Version string
	Run     string
	Epoch   uint64 // number of submitters that the run has had
	Secret  []byte
	User    string        // the user that receives the results; "" if unknown
	Workers []knownWorker // workers that may still run attempts of the run
}

// knownWorker describes a worker to the next epoch.
type knownWorker struct {
	ID, Host string
	TTL      time.Duration
}

// newIdentity returns the identity of a new run.
func newIdentity() identity {
	return identity{Version: engineVersion, Run: rand.Text()[:16], Epoch: 1, Secret: []byte(rand.Text()[:aes.BlockSize])}
}

// identify sets the run's identity. With --state it is on disk when identify returns.
func (x *submitter) identify() error {
	if !x.resumable {
		x.id = newIdentity()
		return nil
	}
	path := filepath.Join(x.State.Dir, engineFile)
	id, err := readIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && x.State.Reset:
		if id = newIdentity(); x.detached != nil {
			id.Run = x.detached.record.Run
		}
	case err != nil:
		return fmt.Errorf("%w: remove %s to begin anew; tasks that workers have finished meanwhile run again", err, path)
	case id.User != "" && id.User != x.s.user:
		return fmt.Errorf("the run was begun as user %s, who gets its results: continue with the credentials of that user, or remove %s to begin anew", id.User, path)
	default:
		id.Epoch++
	}
	x.id, x.id.User = id, x.s.user
	return x.id.save(path)
}

func readIdentity(path string) (id identity, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return id, err
	}
	switch err := json.Unmarshal(text, &id); {
	case err == nil && id.Version != engineVersion:
		return id, fmt.Errorf("read %s: it has version %s", path, id.Version)
	case err != nil || len(id.Secret) != aes.BlockSize || !validName(id.Run):
		return id, fmt.Errorf("read %s: it is damaged", path)
	}
	return id, nil
}

// validName reports whether name can be a part of a subject.
func validName(name string) bool { return name != "" && !strings.ContainsFunc(name, outOfName) }

func outOfName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
}

// save replaces the file at path.
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

// rememberLocked stores a worker for the next epoch, before it gets its first attempt. It returns
// false if that fails. The caller must hold roster.mu.
func (x *submitter) rememberLocked(w *remoteWorker) bool {
	if !x.resumable || slices.ContainsFunc(x.id.Workers, w.matches) {
		return true
	}
	x.id.Workers = append(x.id.Workers, knownWorker{w.id, w.host, w.ttl})
	err := x.id.save(filepath.Join(x.State.Dir, engineFile))
	if err != nil {
		x.id.Workers = slices.DeleteFunc(x.id.Workers, w.matches)
		x.noticeOnceLocked("worker " + w.host + " gets no tasks: " + err.Error())
	}
	return err == nil
}

// matches reports whether k is this worker.
func (w *remoteWorker) matches(k knownWorker) bool { return k.ID == w.id }

// earlierFinal is the result of an attempt of an earlier epoch, which its worker still keeps.
type earlierFinal struct {
	worker *remoteWorker
	*Final
}

// receiveEarlier stores the result of an attempt of an earlier epoch. Once slots have joined, it
// ignores such results.
func (x *submitter) receiveEarlier(from string, fin *Final) {
	x.roster.mu.RLock()
	defer x.roster.mu.RUnlock()
	w := x.roster.workers[from]
	if w == nil || x.roster.open || fin.Run != x.id.Run || fin.Epoch >= x.id.Epoch || x.builder.token(from, fin.ID) != fin.Token {
		return
	}
	switch fin.Outcome {
	case 0: // it is still running
		return
	case task.Lost, task.NotRun, task.Cancelled:
		x.attempts.sendOrder(w, fin.ID, opRecorded)
		return
	}
	tab := &x.attempts
	tab.mu.Lock()
	defer tab.mu.Unlock()
	list := tab.earlier[fin.Identity]
	if !slices.ContainsFunc(list, func(e earlierFinal) bool { return e.ID == fin.ID }) { // it may arrive twice
		tab.earlier[fin.Identity] = append(list, earlierFinal{w, fin})
	}
}

// forgetEarlier releases the results from earlier epochs of a task that has finished.
func (tab *attemptTable) forgetEarlier(t *task.Task) {
	id := resultIdentity(t)
	tab.mu.Lock()
	list := tab.earlier[id]
	delete(tab.earlier, id)
	tab.mu.Unlock()
	for _, e := range list {
		tab.sendOrder(e.worker, e.ID, opRecorded)
	}
}

// takeEarlier gives an attempt its result from an earlier epoch, or returns false. It
// skips results with lower attempt numbers, which are recorded already.
func (tab *attemptTable) takeEarlier(p *pendingAttempt) bool {
	id := resultIdentity(p.attempt.Task)
	tab.mu.Lock()
	defer tab.mu.Unlock()
	list := tab.earlier[id]
	i := slices.IndexFunc(list, func(e earlierFinal) bool { return e.Number >= p.attempt.Number })
	if i < 0 {
		return false
	}
	p.worker, p.id = list[i].worker, list[i].ID
	p.done <- list[i].Final
	tab.earlier[id] = slices.Delete(list, i, i+1)
	return true
}

// admitWorkers ends the attempts of earlier epochs, collects their results, and then lets slots join.
func (x *submitter) admitWorkers() {
	defer close(x.joined)
	x.endEarlierEpochs()
	r := &x.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.usedAt = true, r.awake
	// All topics must have their labels before any task starts.
	first := func(a, b *remoteWorker) int {
		return cmp.Or(len(b.presence.Labels)-len(a.presence.Labels), strings.Compare(a.id, b.id))
	}
	for _, w := range slices.SortedFunc(maps.Values(r.workers), first) {
		x.fitSlotsLocked(w)
	}
}

// endEarlierEpochs tells workers to end their attempts of earlier epochs and to send the results that
// they keep. It returns once each worker has confirmed, or its lease has run out.
func (x *submitter) endEarlierEpochs() {
	order := Order{Op: opLeave, Run: x.id.Run, Epoch: x.id.Epoch}
	var all sync.WaitGroup
	x.roster.mu.RLock()
	for _, k := range x.id.Workers {
		w := x.roster.workers[k.ID]
		all.Go(func() {
			for ok := true; ok; ok = sleep(w.ctx, epochWait/10) { // a request fails at once if nothing listens
				ctx, cancel := context.WithTimeout(w.ctx, epochWait)
				a, err := x.s.ask(ctx, w.orders, order)
				cancel()
				if err == nil && a.Err == "" {
					return
				}
			}
		})
	}
	x.roster.mu.RUnlock()
	all.Wait()
}
