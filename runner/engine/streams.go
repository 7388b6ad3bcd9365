package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/travel"
	"crew/runner/wiring"
)

// keptFor is how long the streams keep messages that nobody removes: those of a run that
// was killed, or of one that was handed over and whose results nobody fetches.
const keptFor = 30 * 24 * time.Hour

// limits are those of the streams.
type limits struct {
	storage  jetstream.StorageType
	tasks    int64 // messages; a submitter then waits; 0 for mostTasks
	results  int64 // bytes; workers then wait; 0 for mostResults, or what there is
	replicas int
	unsynced bool // tasks are; such a stream can have no replicas later
}

var diskLimits = limits{storage: jetstream.FileStorage, replicas: 1}

const (
	mostTasks   = 100_000
	mostResults = 1 << 30
	mostStored  = 1 << 30 // bytes of tasks that are handed over
)

// with returns the limits with those that the user has given.
func (l limits) with(h *wiring.EngineCall) limits {
	l.results, l.replicas = cmp.Or(h.MaxOutput, l.results), cmp.Or(h.Replicas, l.replicas)
	return l
}

// create makes the streams, and those behind the buckets. Those that there are keep the limits
// that are not given. What is read of a stream comes from its leader: others may lag behind, and what
// is not there yet would count as lost.
func (s *session) create(ctx context.Context, l limits) error {
	bucket := jetstream.StreamConfig{
		Storage: l.storage, MaxMsgsPerSubject: 1, AllowRollup: true, DenyDelete: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute,
	}
	workers, runs := bucket, bucket
	workers.Name, workers.Subjects = workersStream, []string{kvPrefix + ">"}
	runs.Name, runs.Subjects = runsStream, []string{enrolSubject("*", ">")}
	for _, c := range []jetstream.StreamConfig{
		{
			Name: tasksStream, Subjects: []string{"crew.t.>"}, Storage: l.storage, Retention: jetstream.WorkQueuePolicy,
			MaxMsgs: cmp.Or(l.tasks, mostTasks), MaxAge: keptFor,
		},
		{Name: resultsStream, Subjects: []string{"crew.r.>"}, Storage: l.storage, MaxBytes: cmp.Or(l.results, mostResults), MaxAge: keptFor},
		{Name: filesStream, Subjects: []string{travel.Subjects + ">"}},
		workers, runs,
	} {
		c.Replicas, c.Discard, c.Duplicates = l.replicas, jetstream.DiscardNew, 2*time.Minute
		if c.Name == tasksStream && l.unsynced {
			// Submitters ask workers for tasks that a crash of the server has lost. To sync each
			// task takes a third of the hub's time.
			c.PersistMode = jetstream.AsyncPersistMode
		}
		if err := s.settled(ctx, func(ctx context.Context) error { return s.createOne(ctx, c, l) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) createOne(ctx context.Context, c jetstream.StreamConfig, l limits) error {
	_, err := s.js.CreateStream(ctx, c)
	if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	st, err := s.js.Stream(ctx, c.Name)
	if err != nil {
		return err
	}
	old, is := st.CachedInfo().Config, st.CachedInfo().Config
	old.AllowDirect, old.Replicas = false, max(old.Replicas, c.Replicas)
	if c.Name == resultsStream && l.results > 0 {
		old.MaxBytes = l.results
	}
	if old.AllowDirect != is.AllowDirect || old.Replicas != is.Replicas || old.MaxBytes != is.MaxBytes {
		_, err = s.js.UpdateStream(ctx, old)
	}
	return err
}
