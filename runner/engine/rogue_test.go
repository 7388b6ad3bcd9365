package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"crew/runner/address"
	"crew/runner/crewtest"
	"crew/runner/task"
)

// Whoever has stolen the file of a worker sees nothing of what others are given, and answers
// for nobody else.
func TestStolenWorkerFile(t *testing.T) {
	t.Parallel()
	h := testHub(t, t.TempDir())
	key, signer := keyFile(t)
	trusts := filepath.Join(t.TempDir(), "trust")
	require.NoError(t, os.WriteFile(trusts, []byte(signer.Line()+"\n"), 0o600))
	dir, here := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(here, "in"), []byte("the secret"), 0o600))
	w := crew(t, "worker", "--engine", h.as(t, "worker"), "--allow-commands", "--trust", trusts, "--workdir", dir)
	w.Says(w.Stderr, "is ready")
	run := crew(t, "--engine", h.as(t, "submitter"), "--sign", key, "--transfer-file", here+"/./in", "--return", "out",
		"touch begun; until [ -e go ]; do sleep 0.05; done; cat in > out; echo {}", ":::", "real")
	crewtest.Exists(t, dir+"/begun")

	owner, err := h.connect(quiet)
	require.NoError(t, err)
	defer owner.close()
	tasks, err := owner.js.Stream(t.Context(), tasksStream)
	require.NoError(t, err)
	m, err := tasks.GetLastMsgForSubject(t.Context(), "crew.t.>")
	require.NoError(t, err)
	a, err := DecodeAttempt(m.Data)
	require.NoError(t, err)
	victim := senderOf(m.Subject) // the subjects of tasks and of results are alike

	file := h.as(t, "mallory")
	c, err := address.Read(file)
	require.NoError(t, err)
	refused := func(what string, try func(*nats.Conn) error) {
		nc, err := nats.Connect(h.url, nats.UserInfo(c.User, c.Password))
		require.NoError(t, err)
		defer nc.Close()
		require.NoError(t, try(nc))
		_ = nc.Flush()
		require.ErrorIs(t, nc.LastError(), nats.ErrPermissionViolation, what)
	}
	for _, subject := range []string{"_INBOX.>", "_INBOX.worker.>", "_INBOX.*.*", orderSubject("*", anyOne), orderSubject("default", victim), "crew.t.>", "crew.r.>", "$KV.>", "$O.>", ">"} {
		refused(subject, func(nc *nats.Conn) error { _, err := nc.SubscribeSync(subject); return err })
	}
	fin := (&Final{ID: a.ID, Token: a.Token, Facts: task.Facts{Outcome: task.OK, Exit: new(int)}, Stdout: []byte("forged\n"), StdoutLen: 7}).Encode()
	for subject, text := range map[string]string{
		resultSubject("default", victim, a.Run): string(fin), presenceSubject("default", victim): `{"state": "gone"}`, m.Subject: "", orderSubject("default", victim): "{}",
		"$JS.API.CONSUMER.CREATE.CREW_TASKS.x." + m.Subject: `{}`, "$JS.API.CONSUMER.CREATE.CREW_TASKS.x.crew.t.>": `{}`, "$JS.API.STREAM.MSG.GET.CREW_TASKS": `{"seq": 1}`,
		"$JS.API.CONSUMER.NAMES.CREW_TASKS": "", "$JS.API.CONSUMER.LIST.CREW_TASKS": "", "$JS.API.STREAM.MSG.GET.CREW_RESULTS": `{"seq": 1}`,
	} {
		refused(subject, func(nc *nats.Conn) error { return nc.PublishRequest(subject, "_INBOX.mallory.x", []byte(text)) })
	}

	s, err := connect(file, quiet)
	require.NoError(t, err)
	defer s.close()
	me := s.newID("m")
	answer, err := s.nc.Request("$JS.API.CONSUMER.CREATE.CREW_TASKS.x."+taskSubject("default", me, ">"),
		[]byte(`{"stream_name": "CREW_TASKS", "config": {"name": "x", "filter_subject": "crew.t.>", "ack_policy": "explicit"}}`), answerWait)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), `"error"`)
	_, err = s.js.Publish(t.Context(), resultSubject("default", me, a.Run), fin) // with the token of another
	require.NoError(t, err)
	files, err := s.js.CreateConsumer(t.Context(), filesStream, jetstream.ConsumerConfig{FilterSubject: "$O.crew_files.C.>", AckPolicy: jetstream.AckNonePolicy})
	require.NoError(t, err)
	object, err := files.Next()
	require.NoError(t, err)
	require.NotContains(t, string(object.Data()), "secret")
	require.Len(t, object.Data(), len("the secret"))
	touch(t, dir+"/go")
	run.Exits(0)
	require.Equal(t, "real\n", run.Stdout())
	require.Equal(t, "the secret", read(t, filepath.Join(run.Cmd.Dir, "out")))
	require.NotContains(t, fmt.Sprint(run.Stderr(), w.Stderr()), "forged")
}
