package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
	"crew/runner/far/outbox"
)

// requestFor returns the record of a new request to add tasks.
func requestFor(s *session, name string) *runRecord {
	r := &runRecord{RunInfo: newRunInfo("", "", s.user, newIdentity())}
	r.For, r.Progress = name, &Progress{}
	return r
}

// TestDoor starts and ends crew serves, and in half of the rounds hubs, while clients hand requests to
// add tasks over: each request is taken once, and those of a client in order.
func TestDoor(t *testing.T) {
	for round := range crewtest.Rounds(6) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			inTime(t, func(t *testing.T, b *broker) {
				const clients, all = 3, 12
				dir, hubs, serves := t.TempDir(), crewtest.Rand(t, round), crewtest.Rand(t, round)
				ctx, over := context.WithCancel(t.Context())
				hub := func() {
					s := b.connect(nil)
					d, err := newDispatcher(ctx, s, noProcess, dir, 0, quiet)
					require.NoError(t, err)
					sleep(ctx, time.Duration(hubs.IntN(5000))*time.Millisecond)
					s.close() // as if killed
					d.cancel()
					d.wg.Wait()
				}
				if round%2 == 1 {
					b.stop()
					b.name = "own"
					b.start()
					hub = func() { <-ctx.Done() }
				}
				taken, known := map[string][]string{}, map[string]bool{} // by client, by ID
				serve := func() {
					x := &submitter{s: b.connect(nil), ctx: ctx, Call: testCall()}
					x.Control.Name, x.Arrive = "my mail.", func(id string, line []byte) (bool, error) {
						switch n := serves.IntN(6); {
						case known[id]:
							return false, nil
						case line == nil:
							return false, errors.New("no request")
						case n == 0:
							return true, errors.New("it is full")
						case n == 1:
							x.s.close() // as if killed, before its sender knows that it has the request
						}
						client, request, _ := strings.Cut(string(line), " ")
						taken[client], known[id] = append(taken[client], request), true
						return false, nil
					}
					life := time.Duration(serves.IntN(5000)) * time.Millisecond
					_, err := x.s.serveOrders(doorSubject(x.s.user, x.Control.Name), x.takeRequest)
					require.NoError(t, err)
					sleep(ctx, life)
					x.s.close()
					x.door.Lock() // wait for the last request
					x.Arrive = func(string, []byte) (bool, error) { return true, errFull }
					x.door.Unlock()
				}
				var left sync.WaitGroup
				for client := range clients {
					left.Go(func() {
						s := b.connect(nil)
						for i := range all {
							record, line := requestFor(s, "my mail."), fmt.Sprint(client, " ", i)
							require.NoError(t, s.handOver(ctx, record, spool.Text(line), int64(len(line))))
						}
					})
				}
				var ended sync.WaitGroup
				for _, again := range []func(){hub, serve} {
					ended.Go(func() {
						for ctx.Err() == nil {
							again()
						}
					})
				}
				left.Wait()
				sleep(ctx, 5*time.Minute)
				over()
				ended.Wait()
				require.Len(t, taken, clients)
				for client, requests := range taken {
					require.Len(t, requests, all, client)
					for i, request := range requests {
						require.Equal(t, strconv.Itoa(i), request, client)
					}
				}
			})
		})
	}
}

// TestDoorUnheard: if a client learns that the hub has its request only after crew serve has taken it,
// and others as well, the request is not added again, and counts as left.
func TestDoorUnheard(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.dispatches()
		s := b.connect(nil)
		ask := func(o Order) Answer {
			a, err := s.askUntilDone(t.Context(), dispatchSubject(s.user), o)
			require.NoError(t, err)
			return a
		}
		content := spool.Text("x")
		lines := s.blobs.Add(content, 1)
		var stores []Order
		for range 2 {
			record := requestFor(s, "mail")
			o := Order{Op: opStore, Run: record.Run, Record: record, Tasks: &lines}
			require.False(t, ask(o).Wait)
			stores = append(stores, o)
		}
		before := t.TempDir()
		require.NoError(t, os.CopyFS(before, os.DirFS(b.runs)))
		var came []string
		x := &submitter{s: b.connect(nil), ctx: t.Context(), Call: testCall()}
		x.Control.Name, x.Arrive = "mail", func(id string, line []byte) (bool, error) {
			if !slices.Contains(came, id) && line == nil {
				return false, errGarbage
			} else if !slices.Contains(came, id) {
				came = append(came, id)
			}
			return false, nil
		}
		_, err := x.s.serveOrders(doorSubject(s.user, "mail"), x.takeRequest)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.False(t, ask(stores[0]).Wait)
		time.Sleep(time.Minute)
		require.NoError(t, os.CopyFS(b.runs, os.DirFS(before))) // a power failure brings them back
		d, err := newDispatcher(t.Context(), b.connect(nil), nil, b.runs, 0, func(text string) { t.Error(text) })
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Empty(t, d.all())
		require.Equal(t, []string{stores[0].Run, stores[1].Run}, came)
		d.cancel()
		d.wg.Wait()
	})
}

// slowText is read slowly.
type slowText struct{ spool.Text }

func (s slowText) ReadAt(p []byte, at int64) (int, error) {
	time.Sleep(time.Second)
	return s.Text.ReadAt(p, at)
}

// A crew serve waits for a request that arrives slowly, but not for one whose sender is gone. It fetches
// none that it has already.
func TestDoorSlow(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		came, full := map[string]bool{}, false
		x := &submitter{s: b.connect(nil), ctx: t.Context(), Call: testCall()}
		x.Arrive = func(id string, line []byte) (bool, error) {
			if came[id] = came[id] || line != nil && !full; !came[id] {
				return line != nil, errFull
			}
			return false, nil
		}
		s, text := b.connect(nil), strings.Repeat("x", 7*outbox.Piece)
		order := func(run string, content task.Live) *Order {
			lines := s.blobs.Add(content, int64(len(text)))
			return &Order{Op: opStore, Run: run, Owner: s.user, Tasks: &lines}
		}
		ctx, cancel := context.WithTimeout(t.Context(), answerWait+retryWait/2)
		defer cancel()
		s.hub = false // no crew serve can have got it
		require.Equal(t, context.DeadlineExceeded, s.handOver(ctx, requestFor(s, "mail"), spool.Text("x"), 1))
		gone := order("gone", spool.Text(text))
		gone.Tasks.Place = "GONE"
		require.Error(t, x.takeRequest(gone, &Answer{}))
		o := order("slow", slowText{spool.Text(text)})
		require.NoError(t, x.takeRequest(o, &Answer{}))
		s.blobs.Drop(*o.Tasks)
		require.NoError(t, x.takeRequest(o, &Answer{}))
		time.Sleep(time.Minute) // for late answers
		o, full = order("full", spool.Text(text)), true
		require.Equal(t, errFull, x.takeRequest(o, &Answer{}))
		s.blobs.Drop(*o.Tasks)
		full = false
		require.NoError(t, x.takeRequest(o, &Answer{}))
		time.Sleep(time.Minute) // for late answers
	})
}

// A hub keeps requests while it is away from their client, and has no use for a name that is too long. Its
// owner may remove the requests of others.
func TestDoorOrders(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		d := b.dispatcher(noProcess)
		s, owner := b.connect(nil), b.connect(nil)
		s.setUser("ann")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		long := requestFor(s, strings.Repeat("n", 3000))
		require.Error(t, s.handOver(ctx, long, spool.Text("x"), 1))
		b.stop()
		time.AfterFunc(time.Second, b.start)
		record := requestFor(s, "mail")
		require.NoError(t, s.handOver(ctx, record, spool.Text("x"), 1))
		require.Len(t, d.all(), 1)
		time.Sleep(time.Minute) // until owner has reconnected
		_, err := owner.nc.Subscribe(doorSubject("ann", "old"), func(m *nats.Msg) {
			own := strconv.AppendInt([]byte(`"version":`), Version, 10)
			answer, err := owner.nc.RequestWithContext(ctx, dispatchSubject("ann"), bytes.Replace(m.Data, own, []byte(`"version":1`), 1))
			require.NoError(t, err)
			require.NoError(t, m.Respond(answer.Data))
		})
		require.NoError(t, err)
		_, err = s.askUntilDone(ctx, doorSubject("ann", "old"), Order{})
		require.ErrorContains(t, err, "install the same version of crew")
		require.NoError(t, owner.forget(record.Run))
		require.Empty(t, d.all())
	})
}

// However many requests are left at a hub, it announces all runs.
func TestDoorMany(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		s := b.connect(nil)
		d := &dispatcher{s: s, runs: map[string]*hubRun{}}
		add := func(n int, name string) {
			for range n {
				r := requestFor(s, name)
				d.runs[r.Run] = &hubRun{record: *r}
			}
		}
		add(50, "")
		add(3*maxAnnounced, "mail")
		_, err := s.nc.Subscribe(askSubject, func(*nats.Msg) { d.announce() })
		require.NoError(t, err)
		st, err := b.connect(nil).queryStatus(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, 50+maxAnnounced, len(st.Runs))
	})
}
