package engine

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"crew/runner/outbox"
)

const (
	pullHeartbeat = 2 * time.Second // of a server: after two that are missing, messages are asked for again
	pullWait      = 20 * time.Second
	pullMost      = 256 // messages
)

var errPullAgain = errors.New("the consumer is to be made anew")

// pull calls take with the messages of a consumer, of which no more are on their way than a
// window has room for, so that nothing else has to wait for long behind them. wait is for those that
// the server has. It returns once
// ctx is done, take returns false, or the consumer may not deliver any more what was on its way.
func (s *session) pull(ctx context.Context, c jetstream.Consumer, wait *outbox.Wait, take func(jetstream.Msg) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	status := s.nc.StatusChanged(nats.CONNECTED)
	defer s.nc.RemoveStatusListener(status)
	go func() {
		select {
		case <-status:
			cancel()
		case <-ctx.Done():
		}
	}()
	for w, more := outbox.NewWindow(), false; ; {
		size, began := w.Size(), time.Now()
		w.Try(size)
		next, done := context.WithTimeout(ctx, pullWait)
		batch, err := c.Fetch(pullMost, jetstream.FetchMaxBytes(size), jetstream.FetchContext(next), jetstream.FetchHeartbeat(pullHeartbeat))
		if err != nil {
			done()
			return err
		}
		n, waited := 0, !more
		more = false
		for m := range batch.Messages() {
			if meta, err := m.Metadata(); err != nil || ctx.Err() != nil || !take(m) {
				done()
				return errPullAgain
			} else {
				n++
				more = meta.NumPending > 0
				wait.Set(more)
			}
		}
		done()
		took := time.Since(began)
		if err = batch.Error(); ctx.Err() != nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return errPullAgain
		}
		if err == nil && n < pullMost && took < pullWait/2 { // the next message does not fit into the size
			more = true
			wait.Set(true)
		}
		switch {
		case n == 0 && more:
			took = time.Nanosecond
		case waited:
			took = 0
		}
		w.Give(size, took)
	}
}

// follow calls take with the messages of a run's results, in order, from the first there
// is. The caller has read be called until ctx is done.
func (s *session) follow(
	ctx context.Context, subject string, wait *outbox.Wait, take func(m jetstream.Msg, meta *jetstream.MsgMetadata),
) (read func(), err error) {
	from := func(seq uint64) (jetstream.Consumer, error) {
		return s.js.CreateConsumer(ctx, resultsStream, jetstream.ConsumerConfig{
			FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq,
			AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
		})
	}
	c, err := from(1)
	return func() {
		next, err := uint64(1), error(nil)
		for ctx.Err() == nil {
			if err == nil {
				n := uint64(0)
				_ = s.pull(ctx, c, wait, func(m jetstream.Msg) bool {
					meta, err := m.Metadata()
					if n++; err != nil || meta.Sequence.Consumer != n {
						return false
					}
					next = meta.Sequence.Stream + 1
					take(m, meta)
					return true
				})
			}
			if c, err = from(next); err != nil {
				pause(ctx, reconnectWait)
			}
		}
	}, err
}
