package engine

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/far/address"
	"crew/runner/far/travel"
)

// rogue is a malicious user with credentials, who subscribes to everything and keeps all messages.
type rogue struct {
	t    *testing.T
	nc   *nats.Conn
	msgs chan *nats.Msg
}

func (g *siege) rogue(file string) *rogue {
	url, how, err := address.Find(file)
	inbox := nats.CustomInboxPrefix(inboxOf(strings.TrimSuffix(filepath.Base(file), ".json")))
	require.NoError(g.t, err)
	r := &rogue{t: g.t, msgs: make(chan *nats.Msg, 1<<16)}
	r.nc, err = nats.Connect(url, how, inbox, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(g.t, err)
	g.t.Cleanup(r.nc.Close)
	return r
}

// may reports whether the server allows an operation.
func (r *rogue) may(do func() error) bool {
	before := r.nc.LastError()
	require.NoError(r.t, do())
	require.NoError(r.t, r.nc.Flush()) // a refusal comes before the reply
	return r.nc.LastError() == before || !errors.Is(r.nc.LastError(), nats.ErrPermissionViolation)
}

func (r *rogue) hears(subject string) bool {
	return r.may(func() error {
		_, err := r.nc.ChanSubscribe(subject, r.msgs)
		return err
	})
}

func (r *rogue) says(subject string, data []byte) bool {
	return r.may(func() error { return r.nc.Publish(subject, data) })
}

// replies reports whether the rogue may publish on a subject because a message that it has sent to itself
// asks for a reply there.
func (r *rogue) replies(own, subject string) bool {
	require.NoError(r.t, r.nc.PublishRequest(own, subject, nil))
	require.NoError(r.t, r.nc.Flush())
	return r.says(subject, nil)
}

// TestRogues: a submitter and a worker try every operation, allowed or not, with all that others could
// have told them, against a run and a detached run.
func TestRogues(t *testing.T) {
	t.Parallel()
	g := &siege{t: t, dir: t.TempDir(), port: "0"}
	g.open()
	honest, eve, mallory, web1 := g.invite("honest", "--submitter"), g.invite("eve", "--submitter"), g.invite("mallory"), g.invite("web1")
	command := []string{"sh", "-c", "echo >> " + g.dir + "/starts; until [ -e " + g.dir + "/go ]; do sleep 0.01; done; echo \"$1\"", "sh", "{}"}
	long := "secret" + strings.Repeat(".", 100<<10)
	crew(t, append([]string{"worker", "--engine", web1, "-j4", "--worker-ttl", "10m"}, command...)...)
	run := crew(t, append(append([]string{"--engine", honest, "-k", "--name", "nightly"}, command...), ":::", "secret", long)...)
	handed := crew(t, append(append([]string{"--engine", honest, "--detach"}, command...), ":::", "secret", long)...)
	handed.Exits(0)
	crew(t, "ctl", "add", "--to", "engine:"+honest+"/mail", long).Exits(0)

	s, err := connect(honest, nil)
	require.NoError(t, err)
	defer s.close()
	var st *engineStatus
	crewtest.Until(t, func() bool {
		st, err = s.queryStatus(t.Context(), "")
		return err == nil && len(st.Workers) == 1 && st.Workers[0].Busy == 4 && len(st.Runs) == 3
	}, "all to run")
	worker, stored := st.Workers[0].ID, strings.TrimSpace(handed.Stdout())
	left := st.Runs[slices.IndexFunc(st.Runs, func(r RunInfo) bool { return r.State == runLeft })].Run
	nightly, err := s.findRun(t.Context(), "nightly")
	require.NoError(t, err)

	submitter, thief := g.rogue(eve), g.rogue(mallory)
	for subject, r := range map[string]*rogue{
		"_INBOX.eve.>": submitter, "crew.r.eve.>": submitter, "crew.c.eve.*": submitter, "crew.o.eve.*": submitter, "crew.p.*.*.*": submitter, "crew.e.eve.*": submitter,
		"_INBOX.mallory.>": thief, "crew.t.*.mallory.*.*.*": thief, "crew.w.*.mallory.*.*": thief, "crew.o.mallory.*": thief, "crew.b.*.*": thief,
	} {
		require.True(t, r.hears(subject), subject)
	}
	own := map[*rogue]string{submitter: "crew.c.eve.x", thief: "crew.o.mallory.x"}
	for _, r := range []*rogue{submitter, thief} {
		for _, subject := range []string{
			">", "crew.>", "crew.t.>", "crew.w.>", "crew.r.>", "crew.c.>", "crew.d.*", "crew.e.>", "crew.o.>", "crew.h", "_INBOX.>", "$SYS.>", "$JS.>",
			taskSubject("*", worker, "*", "*"), orderSubject("*", worker, "*"), resultSubject("honest", "*", allWorkers), runSubject("honest", "*"),
			runInfoSubject("honest", "*"), dispatchSubject("honest"), inboxOf("honest") + ".>", inboxOf("web1") + ".>", "crew.o.honest.*", "crew.o.web1.*",
		} {
			require.False(t, r.hears(subject), subject)
		}
		for _, run := range []string{nightly.Run, stored} {
			for _, subject := range []string{
				taskSubject("default", worker, "honest", run), orderSubject("default", worker, "honest"), heartbeatSubject("default", "honest"),
				resultSubject("honest", run, worker), runSubject("honest", run), runInfoSubject("honest", run), presenceSubject("default", worker),
				dispatchSubject("honest"), hubSubject, "_INBOX.honest", "$SYS.REQ.SERVER.PING",
			} {
				require.False(t, r.says(subject, nil) || r.replies(own[r], subject), subject)
			}
		}
	}
	for id := range uint64(32) { // long attempts that cannot be fetched
		a := Attempt{ID: ID{"x", 1, id, 1, 1}, Token: Token{byte(id + 1)}, Whole: travel.Blob{Place: "X", Size: 1, Name: "x"}, Trip: travel.Trip{User: "eve"}}
		require.True(t, submitter.says(taskSubject("default", worker, "eve", "x"), encode(kindAttempt, a)))
	}
	for _, run := range []string{nightly.Run, stored} {
		for id := range uint64(4) {
			id := ID{run, 1, id, 1, 1}
			for _, op := range []string{opCancel, opKill, opReturn, opRecorded} {
				order := encode(kindOrder, AttemptOrder{ID: id, Op: op})
				require.True(t, submitter.says(taskSubject("default", worker, "eve", run), order))
			}
			leave := Order{Op: opLeave, Run: run, Epoch: 2}
			require.True(t, submitter.says(orderSubject("default", worker, "eve"), leave.encode()))
			a := Attempt{ID: id, Trip: travel.Trip{User: "eve"}, Argv: []string{"touch", g.dir + "/evil"}}
			require.True(t, submitter.says(taskSubject("default", worker, "eve", run), encode(kindAttempt, a)))
			final := Final{ID: id, Facts: task.Facts{Outcome: task.OK}}
			require.True(t, thief.says(resultSubject("honest", run, "mallory.m"), encode(kindFinal, final)))
		}
		over, _ := json.Marshal(Heartbeat{Version: Version, Run: run, Epoch: 2, Over: true})
		require.True(t, submitter.says(heartbeatSubject("default", "eve"), over))
		crew(t, "engine", "cancel", run, "--engine", eve).Exits(1)
		crew(t, "engine", "attach", run, "--engine", eve).Exits(1)
	}
	for _, run := range []string{nightly.Run, stored, left} {
		for _, o := range []Order{{Op: opTalk, Turn: 1, Client: "c", Data: []byte("{}\n")}, {Op: opRead, File: tasksFile}, {Op: opRead, File: journalFile}, {Op: opRead, File: outputFile}, {Op: opForget}} {
			o.Run = run
			m, err := submitter.nc.Request(dispatchSubject("eve"), o.encode(), answerWait)
			require.NoError(t, err)
			require.Contains(t, string(m.Data), errNoRun.Error())
		}
	}
	require.False(t, submitter.says(doorSubject("honest", "mail"), nil) || submitter.hears(doorSubject("honest", "mail")))
	_, err = thief.nc.Subscribe(askSubject, func(*nats.Msg) {
		_ = thief.nc.Publish(presenceSubject("default", "mallory.m"), []byte(`{"run": "nightly"}`))
	})
	require.NoError(t, err)
	_, err = s.findRun(t.Context(), "nightly")
	require.NoError(t, err)
	p := crew(t, "engine", "status", "--engine", eve)
	p.Exits(0)
	require.NotContains(t, p.Stdout(), "nightly")
	require.NotContains(t, p.Stdout(), stored)

	crewtest.WriteFile(t, filepath.Join(g.dir, "go"), "", 0o600)
	run.Exits(0)
	require.Equal(t, "secret\n"+long+"\n", run.Stdout())
	require.Empty(t, run.Stderr())
	p = crew(t, "engine", "attach", stored, "--engine", honest)
	p.Exits(0)
	require.Equal(t, "secret\n"+long+"\n", p.Stdout())
	mail := crew(t, append([]string{"serve", "--engine", honest, "--name", "mail", "--state", g.dir + "/mail"}, command...)...)
	crewtest.Until(t, func() bool { return mail.Stdout() == long+"\n" }, "what was left")
	mail.Send(syscall.SIGTERM)
	mail.Wait()
	require.NoFileExists(t, filepath.Join(g.dir, "evil"))
	require.Equal(t, "\n\n\n\n\n", crewtest.ReadFile(t, filepath.Join(g.dir, "starts")), "an attempt was ended")
	for _, r := range []*rogue{submitter, thief} {
		require.NoError(t, r.nc.Flush())
		for len(r.msgs) > 0 {
			m := <-r.msgs
			require.NotContains(t, string(m.Data), "secret", m.Subject)
		}
	}
	g.hub.Send(syscall.SIGTERM)
	g.hub.Wait()
}
