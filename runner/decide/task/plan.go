package task

// Plan says how the output of tasks is captured, shown and stored. It is decided once, before a run
// opens anything.
type Plan struct {
	Show       Show
	Order      bool // show results in input order
	Tag        bool // begin lines with the task's tag
	FailedOnly bool // show only tasks that did not succeed; excludes Streams
	Copy       bool // keep whole outputs for another sink, whatever Show says
	Attempts   bool // also keep the outputs of failed attempts
	Bound      Bound
}

// Bound limits the output of an attempt: its stdout and stderr together. Beyond it, the rest is dropped. The
// zero Bound sets no limit.
type Bound struct {
	Bytes int64
	Cut   bool // do not end the attempt
}

// BoundOf returns the bound on the output of t in a run with this plan.
func (p *Plan) BoundOf(t *Task) *Bound {
	if t.Origin != nil && t.Origin.Bound.Bytes > 0 {
		return &t.Origin.Bound
	}
	return &p.Bound
}

// Show is how output and results are shown on stdout and stderr.
type Show uint8

// The ways to show.
const (
	ShowBlocks  Show = iota // one block per task, when it ends
	ShowLines               // whole lines as they are written
	ShowRaw                 // tasks write directly to crew's stdout and stderr
	ShowObjects             // one JSON object per result, with its output
	ShowFacts               // one JSON object per result, without its output
	ShowNothing
)

// Streams reports whether output is shown while the task writes it.
func (p Plan) Streams() bool { return p.Show == ShowLines || p.Show == ShowRaw }

// Keeps reports whether results hold their outputs.
func (p Plan) Keeps() bool {
	return p.Show == ShowBlocks || p.Show == ShowObjects || p.Copy
}

// Recalls reports whether a result that was not shown can be shown later. Output that was to be shown
// while its task wrote it is lost unless it was also kept.
func (p Plan) Recalls() bool { return p.Keeps() || p.JSON() }

// KeepsAttempts reports whether the outputs of failed attempts stay open until their task is finished,
// to be shown or reported with it.
func (p Plan) KeepsAttempts() bool { return p.Show == ShowObjects || p.Attempts && p.Keeps() }

// JSON reports whether results are shown as JSON objects.
func (p Plan) JSON() bool { return ShowObjects <= p.Show && p.Show <= ShowFacts }
