package control

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

func itoa(n int) string { return strconv.Itoa(n) }

// connect returns a connection to the run.
func (r *run) connect() *net.UnixConn {
	f, err := connect(r.s.path, time.Minute)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { f.Close() })
	return f
}

// works checks that the run still answers.
func (r *run) works() {
	r.t.Helper()
	replies, err := r.ask(Request{Op: "hello"})
	require.NoError(r.t, err)
	require.Equal(r.t, "fake", replies[0].Hello.Name)
}

func TestLongLines(t *testing.T) {
	r := newRun(t, func(c *Config) { c.lineTimeout = crewtest.Patience })
	long := strings.Repeat("x", maxLine-len(`{"v":2,"op":"add","add":{"values":[""]}}`)-1)
	replies, err := r.ask(Request{Op: "add", Add: &Addition{Values: []task.Bytes{task.Bytes(long)}}})
	require.NoError(t, err)
	require.Len(t, replies[0].Tasks, 1)
	_, err = r.ask(Request{Op: "add", Add: &Addition{Values: []task.Bytes{task.Bytes(long + "x")}}})
	require.ErrorContains(t, err, "longer than 8 MiB")

	f := r.connect()
	go io.WriteString(f, strings.Repeat("y", 2*maxLine)) // ends when the server closes the connection
	got := make([]byte, 1000)
	n, err := f.Read(got)
	require.NoError(t, err)
	require.Contains(t, string(got[:n]), "the line is longer than 8 MiB")
	_, err = io.ReadAll(f)
	require.True(t, err == nil || strings.Contains(err.Error(), "connection reset"), "%v", err)
	r.works()

	for size := block - 200; size < block+200; size += 41 { // around the size of a read
		replies, err := r.ask(Request{Op: "add", Add: &Addition{Values: []task.Bytes{task.Bytes(long[:size])}}})
		require.NoError(t, err)
		require.Len(t, replies[0].Tasks, 1)
	}
}

// TestClientsThatHang checks that clients that do not read delay neither the run nor its end.
func TestClientsThatHang(t *testing.T) {
	r := newRun(t, nil)
	a := r.start(1, 1)
	a.out.Write(make([]byte, 4<<20))
	for _, text := range []string{
		"", `{"v":2,`, `{"v":2,"op":"watch"}` + "\n", `{"v":2,"op":"log","tasks":[1],"follow":true}` + "\n",
		`{"v":2,"op":"add","wait":true,"add":{"values":["x"]}}` + "\n",
		strings.Repeat(`{"v":2,"op":"status"}`+"\n", 2000),
	} {
		for range 3 {
			io.WriteString(r.connect(), text)
		}
	}
	crewtest.Until(t, func() bool { return r.listeners() == 9 }, "the clients")
	long := strings.Repeat("x", 10_000)
	for range 5000 {
		r.event(task.Event{Kind: task.Notice, Text: long})
	}
	r.end(a, task.OK, true)
	r.works()
	r.s.Close()
	crewtest.Until(t, func() bool { return r.listeners() == 0 }, "the clients")
}

// TestSlowReaderAtTheEnd checks that a client that reads slowly still gets the whole output of its task.
func TestSlowReaderAtTheEnd(t *testing.T) {
	r := newRun(t, func(c *Config) { c.partingGap = time.Minute })
	got, slow := 0, true
	over := make(chan error)
	numbered := make(chan struct{})
	go func() {
		over <- r.talk(Request{Op: "add", Wait: true, Add: &Addition{Values: []task.Bytes{"x"}}}, func(reply *Reply) error {
			if len(reply.Tasks) > 0 {
				close(numbered)
			}
			if got += len(reply.Data); slow && got > 1<<20 {
				slow = false
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		})
	}()
	<-numbered
	a := r.start(1, 1)
	a.out.Write(make([]byte, 4<<20))
	r.end(a, task.OK, true)
	r.s.Close()
	require.NoError(t, <-over)
	require.Equal(t, 4<<20, got)
}

// TestFeedThatHangs checks that a stuck Feed delays the end of the run no more than a client does.
func TestFeedThatHangs(t *testing.T) {
	hangs, goOn := make(chan struct{}), make(chan struct{})
	r := newRun(t, func(c *Config) { c.partingGap = 10 * time.Millisecond })
	r.s.cfg.Feed = func(*Addition, func(_, _ []uint64)) error {
		close(hangs)
		<-goOn
		return task.ErrFull
	}
	defer close(goOn)
	_, over := r.call(Request{Op: "add", Add: &Addition{Values: []task.Bytes{"x"}}})
	<-hangs
	r.s.Close()
	require.ErrorContains(t, <-over, "ended before it answered")
}

func TestManyConnections(t *testing.T) {
	r := newRun(t, nil)
	var files []*net.UnixConn
	for range maxConns {
		f := r.connect()
		files = append(files, f)
		io.WriteString(f, `{"v":2,"op":"watch"}`+"\n")
	}
	crewtest.Until(t, func() bool { return r.listeners() == maxConns }, "the clients")
	_, err := FindFeed("fake")
	require.ErrorContains(t, err, "too many clients")
	require.Contains(t, strings.Join(Runs(List(), 100), "\n"), "has too many clients")
	for _, f := range files {
		f.Close()
	}
	room := func() bool {
		_, err := r.ask(Request{Op: "hello"})
		return err == nil
	}
	crewtest.Until(t, room, "those that are gone to make room")
	crewtest.Until(t, func() bool { return r.listeners() == 0 }, "the clients")

	r = newRun(t, func(c *Config) { c.lineTimeout = 50 * time.Millisecond })
	for range maxConns {
		r.connect()
	}
	crewtest.Until(t, room, "those that ask nothing to make room")
}

// FuzzRequest checks that an accepted request, encoded again, means the same.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"v":2,"op":"status"}`, `{"v":2,"op":"cancel","key":{"base64":"/w=="}}`, `{"v":2,"op":"resize","n":-1,"relative":true}`,
		`{"v":2,"op":"add","wait":true,"add":{"command":["a"],"env":["A=b"],"dir":"/","after":[1]}}`,
		`{"v":2,"op":"x"}`, `{"op":"hello","v":2}x`, `{"v":2,"op":"log","tasks":[18446744073709551615],"follow":true}`, `"{`, `{"a":{"b":"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		q, err := decodeRequest(line)
		if err != nil {
			e, ours := errors.AsType[*Refused](err)
			require.True(t, ours)
			require.Equal(t, statusMalformed, e.Status)
			return
		}
		require.Equal(t, Version, q.V)
		again, err := decodeRequest(encode(t, q))
		require.NoError(t, err)
		require.Equal(t, encode(t, q), encode(t, again))
	})
}

func encode(t *testing.T, q *Request) []byte {
	b, err := json.Marshal(q)
	require.NoError(t, err)
	return b
}
