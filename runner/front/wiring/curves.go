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
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		memory, load := 0.0, 0.0
		if !o.Far() {
			free, total, _ := here.Memory()
			memory = float64(total - free)
			load, _ = here.Load()
		}
		timer.Reset(w.curves.Sample(memory, load))
	})
	timer.Reset(time.Second) // timer is assigned by now
	w.onClose(func() { timer.Stop() })
	return nil
}
