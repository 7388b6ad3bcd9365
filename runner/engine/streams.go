package engine

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// keptFor is how long the results of a run that was handed over wait for somebody to fetch them.
const keptFor = 30 * 24 * time.Hour

// create makes the streams behind the buckets, on some servers of a cluster. What
// is read of a stream comes from its leader: others may lag behind, and what is not there yet would
// count as lost.
func (s *session) create(ctx context.Context, storage jetstream.StorageType, replicas int) error {
	bucket := jetstream.StreamConfig{
		Storage: storage, MaxMsgsPerSubject: 1, AllowRollup: true, DenyDelete: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute,
	}
	workers, runs := bucket, bucket
	workers.Name, workers.Subjects = workersStream, []string{kvPrefix + ">"}
	runs.Name, runs.Subjects = runsStream, []string{enrolSubject("*", ">")}
	for _, c := range []jetstream.StreamConfig{
		workers, runs,
	} {
		c.Replicas, c.Discard, c.Duplicates = max(1, replicas), jetstream.DiscardNew, 2*time.Minute
		if err := s.settled(ctx, func(ctx context.Context) error { return s.createOne(ctx, c) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) createOne(ctx context.Context, c jetstream.StreamConfig) error {
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
	if old.AllowDirect != is.AllowDirect || old.Replicas != is.Replicas {
		_, err = s.js.UpdateStream(ctx, old)
	}
	return err
}
