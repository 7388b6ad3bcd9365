package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/exec/spool"
)

// TestLeft starts and ends hubs and crew serves while requests to add tasks are left: each request is
// taken once, in order.
func TestLeft(t *testing.T) {
	for round := range crewtest.Rounds(4) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			inTime(t, func(t *testing.T, b *broker) {
				const all = 30
				dir, hubs, serves, leaver := t.TempDir(), crewtest.Rand(t, round), crewtest.Rand(t, round), b.connect(nil)
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
				var taken []string
				var came atomic.Int32
				door := ""
				serve := func() {
					x := &submitter{s: b.connect(nil)}
					var end context.CancelCauseFunc
					x.ctx, end = context.WithCancelCause(ctx)
					x.Call = testCall()
					x.Control.Name, x.Arrive = "mail", func(id string, line []byte) (bool, error) {
						switch n := serves.IntN(6); {
						case id == door:
							return false, nil
						case n == 0:
							return true, errors.New("it is full")
						case n == 1:
							end(nil) // once it has the request, before the hub knows
						}
						taken, door = append(taken, string(line)), id
						came.Add(1)
						return false, nil
					}
					x.takeRequests()
					x.s.close()
				}
				left := make(chan struct{})
				go func() {
					defer close(left)
					for i := range all {
						record := runRecord{RunInfo: newRunInfo("", "", leaver.user, newIdentity())}
						record.For, record.Progress = "mail", &Progress{}
						line := strconv.Itoa(i)
						require.NoError(t, leaver.handOver(ctx, &record, spool.Text(line), int64(len(line))))
					}
				}()
				ended := make(chan struct{}, 2)
				for _, again := range []func(){hub, serve} {
					go func() {
						for ctx.Err() == nil {
							again()
						}
						ended <- struct{}{}
					}()
				}
				<-left
				for n := 0; came.Load() < all; n++ {
					require.Less(t, n, 1000, "%d have come", came.Load())
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
				over()
				<-ended
				<-ended
				for i, line := range taken {
					require.Equal(t, strconv.Itoa(i), line)
				}
				require.Len(t, taken, all)
			})
		})
	}
}

// TestLeftUnheard: if a client learns that the hub has its request only after crew serve has taken it,
// and others as well, the request is not added again, and counts as left.
func TestLeftUnheard(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		b.dispatches()
		s := b.connect(nil)
		ask := func(o Order) Answer {
			a, err := s.askUntilDone(t.Context(), o)
			require.NoError(t, err)
			return a
		}
		content := spool.Text("x")
		lines := s.blobs.Add(content, 1)
		var stores []Order
		for range 2 {
			record := runRecord{RunInfo: newRunInfo("", "", s.user, newIdentity())}
			record.For, record.Progress = "mail", &Progress{}
			o := Order{Op: opStore, Run: record.Run, Record: &record, Tasks: &lines}
			require.False(t, ask(o).Wait)
			stores = append(stores, o)
		}
		before := t.TempDir()
		require.NoError(t, os.CopyFS(before, os.DirFS(b.runs)))
		next := Order{Op: opNext, For: "mail"}
		for _, o := range stores {
			next.Run = ask(next).Run
			require.Equal(t, o.Run, next.Run)
		}
		require.Empty(t, ask(next).Run)
		require.False(t, ask(stores[0]).Wait)
		require.Empty(t, ask(next).Run)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.handOver(late, stores[1].Record, content, 1))

		require.NoError(t, os.CopyFS(b.runs, os.DirFS(before)))                      // a power failure brings them back
		crewtest.WriteFile(t, filepath.Join(b.runs, "x"+takenExt+".new"), "", 0o600) // a kill leaves it
		d, err := newDispatcher(t.Context(), b.connect(nil), nil, b.runs, 0, func(text string) { t.Error(text) })
		require.NoError(t, err)
		require.Empty(t, d.all())
		d.cancel()
		d.wg.Wait()
	})
}

// However many requests are left at a hub, it announces all runs.
func TestLeftMany(t *testing.T) {
	inTime(t, func(t *testing.T, b *broker) {
		s := b.connect(nil)
		d := &dispatcher{s: s, runs: map[string]*hubRun{}}
		add := func(n int, name string) {
			for range n {
				r := runRecord{RunInfo: newRunInfo("", "", s.user, newIdentity())}
				r.For, r.Progress = name, &Progress{}
				d.runs[r.Run] = &hubRun{record: r}
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
