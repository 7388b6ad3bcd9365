package task

// Plan says what becomes of what tasks write. It is made once, in cli, and
// whoever captures, records or shows output goes by it.
type Plan struct {
	Show  Show
	Order bool // results are shown in input order
	Tag   bool // lines begin with the task's tag
	Copy  bool // a sink beside stdout takes whole outputs, whatever Show is
}

// Show is how output and results come to stdout and stderr.
type Show uint8

// The ways to show.
const (
	ShowBlocks  Show = iota // a task's output in one block when it ends
	ShowLines               // whole lines as they come
	ShowRaw                 // tasks write to crew's own stdout and stderr
	ShowObjects             // a JSON object a result, with its output
	ShowFacts               // a JSON object a result, without its output
	ShowNothing
)

// Streams says whether output is shown while the task writes it.
func (p Plan) Streams() bool { return p.Show == ShowLines || p.Show == ShowRaw }

// Keeps says whether results hold their outputs.
func (p Plan) Keeps() bool { return p.Show == ShowBlocks || p.Show == ShowObjects || p.Copy }

// KeepsAttempts says whether the outputs of failed attempts stay open until
// their task is finished, since they are shown with it.
func (p Plan) KeepsAttempts() bool { return p.Show == ShowObjects }

// JSON says whether results are shown as objects.
func (p Plan) JSON() bool { return p.Show == ShowObjects || p.Show == ShowFacts }
