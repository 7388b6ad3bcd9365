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
	Outcome []int   `json:"outcome"`
	Final   []int   `json:"final"`
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
		Run: a.Run, Attempt: a.Attempt, Lane: a.Lane, Code: a.Code, Key: a.Key,
		Task: steps(a.Task), Command: steps(a.Command), Start: steps(tenths(a.Start, 0)), Took: tenths(a.Took, 4), Waited: tenths(a.Waited, 3),
	}
	for o := range task.Outcomes {
		p.Kinds = append(p.Kinds, [2]string{o.String(), kind(o)})
	}
	for i, o := range a.Outcome {
		final := 0
		if a.Final[i] {
			final = 1
		}
		p.Outcome, p.Final = append(p.Outcome, int(o)), append(p.Final, final)
	}
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
		for _, name := range a.Names {
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

// steps returns the differences of each number to the one before.
func steps[T uint64 | int32 | int64](column []T) []int64 {
	all, last := make([]int64, len(column)), int64(0)
	for i, n := range column {
		all[i], last = int64(n)-last, int64(n)
	}
	return all
}

// tenths returns milliseconds in units of 0.1 ms, with that many digits, 0 for all, since digits
// that nobody sees take room. What is negative is -1.
func tenths(column []float64, digits int) []int64 {
	all := make([]int64, len(column))
	for i, ms := range column {
		switch n := ms * 10; {
		case n < 0 && digits > 0:
			all[i] = -1
		case n == 0 || digits == 0:
			all[i] = int64(math.Round(n))
		default:
			unit := math.Pow(10, max(0, math.Ceil(math.Log10(n))-float64(digits)))
			all[i] = int64(math.Round(n/unit) * unit)
		}
	}
	return all
}

// runName returns by what people tell a run from the others.
func runName(r *history.Report, i int) string {
	run := &r.Runs[i]
	if run.Start.IsZero() {
		return show(run.Source)
	}
	return task.Moment(run.Start) + " · " + show(run.Source)
}
