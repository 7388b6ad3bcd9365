package wiring

import (
	"os"
	"path/filepath"
	"time"

	"crew/runner/exec/machine"
	"crew/runner/keep/series"
)

// openCurves starts to record the figures of the run over time, for clients and, for a queue, in its --state
// directory. It records the memory and the load only if tasks run on this machine.
func (w *wiring) openCurves() error {
	o := w.opts
	if o.Control.Off {
		return nil
	}
	w.curves = series.NewLive()
	if w.feed != nil && w.state != nil {
		if o.State.Reset {
			_ = os.Remove(filepath.Join(o.State.Dir, series.FileName))
		}
		if err := w.curves.Keep(o.State.Dir); err != nil {
			return err
		}
	}
	here := machine.New("")
	w.onClose(repeat(time.Second, func() time.Duration {
		memory, load := 0.0, 0.0
		if !o.Far() {
			free, total, _ := here.Memory()
			memory = float64(total - free)
			load, _ = here.Load()
		}
		return w.curves.Sample(memory, load)
	}))
	return nil
}
