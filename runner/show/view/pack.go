package view

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"

	"crew/runner/decide/task"
	"crew/runner/show/history"
)

// level is the gzip level: within 2 % of the best size, in a third of the time.
const level = 4

// packed is the data for the script, as JSON.
type packed struct {
	Base    float64           `json:"base"` // milliseconds since 1970
	Zone    int               `json:"zone"` // minutes east of UTC
	More    int64             `json:"more"`
	Kinds   [][2]string       `json:"kinds"` // name and class of each outcome
	Runs    []history.Run     `json:"runs"`
	Lanes   []history.Lane    `json:"lanes"`
	Blocked []history.Blocked `json:"blocked"`
	Names   []string          `json:"names"`

	Columns [12][]int64 `json:"columns"` // of the attempts
}

// pack returns the data of a page: base64 of gzip of JSON.
func pack(r *history.Report) string {
	a := &r.Attempts
	_, east := a.Base.Local().Zone()
	p := &packed{Base: float64(a.Base.UnixMicro()) / 1000, Zone: east / 60, More: a.More, Runs: r.Runs, Lanes: a.Lanes, Blocked: r.Blocked}
	for o := range task.Outcomes {
		p.Kinds = append(p.Kinds, [2]string{o.String(), kind(o)})
	}
	var names []string
	p.Columns, names = columns(a)
	for _, name := range names {
		p.Names = append(p.Names, show(name))
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level)
	_ = json.NewEncoder(z).Encode(p) // never fails for such data in a Buffer
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// columns returns the attempts as columns: task, start, command, run, attempt, lane, outcome, final,
// code, key, took, waited. Commands and keys are indexes in names. Times are in units of 0.1 ms, or -1
// if unknown. The first three columns hold differences to the previous number.
func columns(a *history.Attempts) (columns [12][]int64, names []string) {
	index := map[string]int64{}
	name := func(s string) int64 {
		i, known := index[s]
		if !known {
			i = int64(len(names))
			index[s], names = i, append(names, s)
		}
		return i
	}
	name("")
	var last [3]int64
	for i := range a.List {
		x, final := &a.List[i], int64(0)
		if x.Final {
			final = 1
		}
		at := [...]int64{int64(x.Task), tenths(x.Start - a.Base.UnixNano()), name(x.Command)}
		for c, n := range [...]int64{
			at[0] - last[0], at[1] - last[1], at[2] - last[2], int64(x.Run), int64(x.Number), int64(x.Lane), int64(x.Outcome),
			final, int64(x.Code), name(x.Key), tenths(x.Took), tenths(x.Waited),
		} {
			columns[c] = append(columns[c], n)
		}
		last = at
	}
	return columns, names
}

// tenths converts nanoseconds to units of 0.1 ms. It returns -1 for a negative number.
func tenths(ns int64) int64 {
	if ns < 0 {
		return -1
	}
	return (ns + 50_000) / 100_000
}
