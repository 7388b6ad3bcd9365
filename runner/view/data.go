package view

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"math"
	"time"

	"crew/runner/history"
	"crew/runner/task"
)

// mostPacked is how long the block of data may be. Where it would be longer, commands
// and keys are cut.
const mostPacked = 4 << 20

// level is that of gzip: within 2 % of the best, in a third of its time.
const level = 4

// packed is what the script gets, as JSON. A column in units of 0.1 ms has -1 where a
// time is unknown; those that are called steps hold the differences to the number before.
type packed struct {
	Base     float64     `json:"base"` // milliseconds since 1970
	Zone     int         `json:"zone"` // minutes east of UTC
	More     int64       `json:"more"`
	Kinds    [][2]string `json:"kinds"` // name and class of each outcome
	Runs     []packedRun `json:"runs"`
	Lanes    [][2]any    `json:"lanes"` // host and worker
	Names    []string    `json:"names"`
	Blocked  [][]any     `json:"blocked"` // run, from and to in milliseconds after base, why
	Failures []failure   `json:"failures"`

	Run     []int32 `json:"run"`
	Task    []int64 `json:"task"` // steps
	Attempt []int32 `json:"attempt"`
	Lane    []int32 `json:"lane"`
	Start   []int64 `json:"start"` // steps of 0.1 ms
	Took    []int64 `json:"took"`
	Waited  []int64 `json:"waited"`
	Outcome []int32 `json:"outcome"`
	Final   []int32 `json:"final"`
	Code    []int32 `json:"code"`
	Key     []int32 `json:"key"`
	Command []int64 `json:"command"` // steps
}

type packedRun struct {
	Name  string  `json:"name"`
	Start float64 `json:"start"` // milliseconds after base
	End   float64 `json:"end"`
}

// pack returns the data of a page: base64 of gzip of JSON.
func pack(r *history.Report, failures []failure) (string, error) {
	a := &r.Attempts
	_, east := a.Base.Local().Zone()
	p := &packed{
		Base: float64(a.Base.UnixMicro()) / 1000, Zone: east / 60, More: a.More, Lanes: [][2]any{}, Blocked: [][]any{}, Failures: failures,
	}
	for o := range task.Outcomes {
		p.Kinds = append(p.Kinds, [2]string{o.String(), kind(o)})
	}
	names := p.columns(a)
	after := func(t time.Time) float64 { return math.Round(float64(t.Sub(a.Base).Microseconds())/100) / 10 }
	for i, run := range r.Runs {
		p.Runs = append(p.Runs, packedRun{runName(r, i), after(run.Start), after(run.End)})
	}
	for _, l := range a.Lanes {
		p.Lanes = append(p.Lanes, [2]any{show(l.Host), l.Worker})
	}
	for _, b := range r.Blocked {
		p.Blocked = append(p.Blocked, []any{b.Run, after(b.From), after(b.To), show(b.Text)})
	}
	for most := longest; ; most /= 3 {
		p.Names = p.Names[:0]
		for _, name := range names {
			p.Names = append(p.Names, visible(name, most))
		}
		if text, err := squeeze(p); err != nil || len(text) <= mostPacked || most < 20 {
			return text, err
		}
	}
}

func squeeze(p *packed) (string, error) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level)
	err := json.NewEncoder(z).Encode(p)
	if err == nil {
		err = z.Close()
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), err
}

// columns sets those of the attempts, and returns their keys and commands, each once.
func (p *packed) columns(a *history.Attempts) (names []string) {
	index := map[string]int32{}
	name := func(s string) int32 {
		i, known := index[s]
		if !known {
			i = int32(len(names))
			index[s], names = i, append(names, s)
		}
		return i
	}
	name("")
	column := func() []int64 { return make([]int64, 0, len(a.List)) } // to grow would take as much memory again
	p.Task, p.Start, p.Took, p.Waited, p.Command = column(), column(), column(), column(), column()
	small := func() []int32 { return make([]int32, 0, len(a.List)) }
	p.Run, p.Attempt, p.Lane, p.Code, p.Key, p.Outcome, p.Final = small(), small(), small(), small(), small(), small(), small()
	var last struct{ task, start, command int64 }
	step := func(last *int64, to int64) (by int64) {
		by, *last = to-*last, to
		return by
	}
	for i := range a.List {
		x, final := &a.List[i], int32(0)
		if x.Final {
			final = 1
		}
		p.Run, p.Attempt, p.Lane, p.Code = append(p.Run, x.Run), append(p.Attempt, x.Number), append(p.Lane, x.Lane), append(p.Code, x.Code)
		p.Outcome, p.Final, p.Key = append(p.Outcome, int32(x.Outcome)), append(p.Final, final), append(p.Key, name(x.Key))
		p.Task = append(p.Task, step(&last.task, int64(x.Task)))
		p.Command = append(p.Command, step(&last.command, int64(name(x.Command))))
		p.Start = append(p.Start, step(&last.start, tenths(x.Start-a.Base.UnixNano(), 0)))
		p.Took, p.Waited = append(p.Took, tenths(x.Took, 4)), append(p.Waited, tenths(x.Waited, 3))
	}
	return names
}

// tenths returns nanoseconds in units of 0.1 ms, with that many digits, 0 for all, since digits
// that nobody sees take room. What is negative is -1.
func tenths(ns int64, digits int) int64 {
	switch n := float64(ns) / 1e5; {
	case n < 0 && digits > 0:
		return -1
	case n == 0 || digits == 0:
		return int64(math.Round(n))
	default:
		unit := math.Pow(10, max(0, math.Ceil(math.Log10(n))-float64(digits)))
		return int64(math.Round(n/unit) * unit)
	}
}

// runName returns by what people tell a run from the others.
func runName(r *history.Report, i int) string {
	run := &r.Runs[i]
	if run.Start.IsZero() {
		return show(run.Source)
	}
	return task.Moment(run.Start) + " · " + show(run.Source)
}
