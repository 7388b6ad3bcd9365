package core

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

var update = flag.Bool("update", false, "write into the scripts what happens")

// TestScripts plays the scripts in testdata. Each is a paragraph that begins with a description. A
// line is a command of task.Op, or a command of scene.play, with fields to set. The consequences
// are indented below.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, path := range paths {
		scripts := strings.Split(strings.TrimSpace(crewtest.ReadFile(t, path)), "\n\n")
		for i, script := range scripts {
			title, _, _ := strings.Cut(strings.TrimPrefix(script, "# "), "\n")
			t.Run(title, func(t *testing.T) {
				s := &scene{t: t, plans: map[uint64]*plan{}}
				for line := range strings.Lines(script) {
					if line[0] != ' ' {
						s.printf("%s", strings.TrimSpace(line))
						s.play(strings.Fields(line))
					}
				}
				played := strings.Join(s.lines, "\n")
				if *update {
					scripts[i] = played
				}
				require.Equal(t, scripts[i], played)
			})
		}
		if *update {
			crewtest.WriteFile(t, path, strings.Join(scripts, "\n\n")+"\n", 0o644)
		}
	}
}

// scene is a script that is being played.
type scene struct {
	*sim
	t     *testing.T
	lines []string
	rules [][]string // tasks, and the fields to set for them
	plans map[uint64]*plan
	log   []happening // not printed yet
}

// plan is a task, and its fate.
type plan struct {
	task.Task
	Takes   time.Duration
	Eats    int64          // bytes of the machine's memory; a tenth of them each second
	Ends    []task.Outcome // of its attempts; the last one is also the outcome of all further attempts
	Unbegun int            // how many attempts come back without having begun
	Size    int            // of its input
	Streams bool           // its input is a block of a stream
	Bad     bool           // its command cannot be executed
	Fault   error          // of crew, in its attempts
	Killed  int            // signal by which the user interrupts it
	Fresh   bool           // its files are up to date
	tries   int
}

// scope holds the settings of a run.
type scope struct {
	Config
	surroundings
}

func (s *scene) printf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// play carries out a line of a script.
func (s *scene) play(words []string) {
	switch verb := words[0]; verb {
	case "#":
		return
	case "task":
		s.rules = append(s.rules, words[1:])
		return
	case "run":
		s.begin(words[1:])
	case "now": // the surroundings of the run change
		fields(&s.surroundings, words[1:])
		s.step(func(*Core) {})
	case "sleep":
		s.sleep(duration(words[1]))
	case "wait":
		s.ended(s.wait())
	case "die":
		s.die(words[1])
	case "tokens": // other programs take or bring some
		s.share(int(numbers(words[1])[0]))
		s.flush()
		s.printf("  %d there, %d held, %d of its own", s.tokens.there, s.tokens.held, s.tokens.all)
	case "abort":
		err := map[string]error{"EPIPE": syscall.EPIPE}[words[1]]
		s.step(func(c *Core) { c.Abort(cmp.Or(err, errors.New(words[1]))) })
	case "gone": // the tokens are lost
		s.step(func(c *Core) { c.Answered(errors.New("gone")) })
	default:
		s.command(verb, words[1:])
	}
	s.flush()
}

// begin begins the run.
func (s *scene) begin(words []string) {
	to := scope{Config: config(1)}
	to.Queue.Terms = true
	fields(&to, words)
	if to.Retry.Jitter = func() float64 { return 1 }; to.Retry.MaxDelay == 0 {
		to.Retry.MaxDelay = to.Retry.Delay
	}
	if to.Again > 0 {
		to.Retry.On = func(r *task.Result) bool { return r.Outcome == to.Again }
	}
	s.sim = simulate(s.t, to.Config, to.Tasks, func(made *sim) {
		s.sim, made.surroundings, made.note = made, to.surroundings, s.note
		made.figures = s.figures
		made.change = func(t *task.Task) {
			p := s.plan(t.ID)
			*t, t.Stdin = p.Task, make([]byte, p.Size)
			if p.Streams {
				t.Block = &task.Block{Free: func() { s.free(t.ID) }}
			}
			if t.Done != nil {
				t.Done.Task = t
			}
		}
		made.do = func(a task.Attempt) (time.Duration, task.Outcome) {
			p := s.plan(a.Task.ID)
			if p.tries++; len(p.Ends) == 0 {
				return p.Takes, task.OK
			}
			return p.Takes, p.Ends[min(p.tries, len(p.Ends))-1]
		}
		made.result = func(r *task.Result) {
			p := s.plan(r.Task.ID)
			r.Unbegun, r.BadCommand, r.Fault = r.Outcome == task.Lost && p.tries <= p.Unbegun, p.Bad, p.Fault
			r.Signal, r.Interrupted = p.Killed, p.Killed > 0
		}
		made.check = func(t *task.Task) *task.Result {
			if s.plan(t.ID).Fresh {
				return &task.Result{Task: t, Outcome: task.Skipped}
			}
			return nil
		}
	})
}

// figures returns the figures of the machine, to which running tasks add.
func (s *scene) figures() (processes float64, free int64) {
	processes, free = s.Load, s.Free
	for _, r := range s.running {
		processes += s.Each
		free -= s.plan(r.Task.ID).Eats * min(10, int64(s.now.Sub(r.begun)/time.Second)) / 10
	}
	return processes, max(0, free)
}

// plan returns the plan of a task.
func (s *scene) plan(id uint64) *plan {
	if s.plans[id] == nil {
		p := &plan{Task: task.Task{ID: id, Argv: []string{"true"}, Cost: 1}, Takes: time.Second}
		for _, rule := range s.rules {
			if rule[0] == "all" || slices.Contains(numbers(rule[0]), int64(id)) {
				fields(p, rule[1:])
			}
		}
		s.plans[id] = p
	}
	return s.plans[id]
}
