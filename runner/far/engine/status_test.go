package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/front/wiring"
	"crew/runner/steer/control"
)

// desk is a user of crew engine.
type desk struct {
	*broker
	s     *session
	there sync.Map // announcements of workers and runs, by subject
	asked string   // orders that the submitters got since
	late  atomic.Int64
}

// TestStatus executes testdata/status.txt: each line that begins with > is a command, and its output
// follows. Other than those of crew engine, the commands are
//
//	there SUBJECT TEXT      a worker or a run announces TEXT when asked, from now on
//	answer SUBJECT TEXT     a submitter answers TEXT when asked
//	ask RUN                 order something from a run, like crew ctl pause
//	submit WORDS            what a run with that command finds
//	wait DURATION
//	late DURATION           how long after a question announcements come, from now on
func TestStatus(t *testing.T) {
	text := crewtest.ReadFile(t, "testdata/status.txt")
	inTime(t, func(t *testing.T, b *broker) {
		d := &desk{broker: b, s: b.connect(nil)}
		d.s.user = "ada"
		others := b.connect(nil)
		_, err := others.nc.Subscribe(askSubject, func(*nats.Msg) {
			time.Sleep(time.Duration(d.late.Load()))
			d.there.Range(func(subject, text any) bool {
				return others.nc.Publish(subject.(string), []byte(text.(string))) == nil
			})
		})
		require.NoError(t, err)
		require.NoError(t, others.nc.Flush())
		times, spaces := regexp.MustCompile(`\d{4}-\d\d-\d\d[ T][0-9:.]+(Z|[-+][0-9:]+)?`), regexp.MustCompile(` +`)
		text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, "")
		for _, step := range strings.Split("\n"+text, "\n> ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			got := strings.TrimSpace(spaces.ReplaceAllString(d.do(command), " "))
			require.Equal(t, strings.TrimSpace(want), times.ReplaceAllString(got, "TIME"), command)
		}
	})
}

// do returns the output of a command.
func (d *desk) do(command string) string {
	verb, rest, _ := strings.Cut(command, " ")
	word, text, _ := strings.Cut(rest, " ")
	out, err := os.CreateTemp(d.t.TempDir(), "")
	require.NoError(d.t, err)
	defer out.Close()
	d.asked = ""
	switch verb {
	case "there":
		d.there.Store(word, text)
	case "answer":
		_, err = d.s.nc.Subscribe(word, func(m *nats.Msg) {
			var o Order
			require.NoError(d.t, json.Unmarshal(m.Data, &o))
			if o.Op == opTalk && o.Turn == 0 {
				return // the client has closed the connection
			}
			d.asked += fmt.Sprintln("asked to", o.Op, o.Run, "by me:", o.By == me())
			_ = m.Respond([]byte(text))
		})
	case "submit":
		_, err = d.tryRun(&records{}, func(s *wiring.Call) { s.Command.Words = strings.Fields(rest) })
	case "wait", "late":
		pause, _ := time.ParseDuration(rest)
		if verb == "late" {
			d.late.Store(int64(pause))
			break
		}
		time.Sleep(pause)
	case "ask":
		err = d.s.asks(word, control.Request{V: control.Version, Op: "pause"})
	default:
		c := &wiring.Call{Options: &cli.Options{Ctl: cli.Ctl{Run: word, Work: strings.Fields(rest), JSON: word == "--json"}}, Out: out}
		err = d.s.carryOut(c, verb)
	}
	printed, _ := os.ReadFile(out.Name())
	if err != nil {
		return string(printed) + d.asked + task.Printable(err.Error())
	}
	return string(printed) + d.asked
}

// asks sends a request to a run, like crew ctl.
func (s *session) asks(run string, req control.Request) error {
	here, there := net.Pipe()
	defer here.Close()
	go json.NewEncoder(here).Encode(req)
	var failed error
	go func() {
		defer there.Close()
		failed = s.relay(run, there)
	}()
	var reply control.Reply
	for lines := json.NewDecoder(here); !reply.End; {
		if err := lines.Decode(&reply); err != nil {
			return cmp.Or(failed, err)
		}
	}
	if reply.Error != "" {
		return errors.New(string(reply.Error))
	}
	return nil
}
