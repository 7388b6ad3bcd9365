package wiring

import (
	"crew/runner"
	"crew/runner/cli"
	"crew/runner/task"
)

// attach connects to the run whose results are to be shown.
func (w *wiring) attach() (err error) {
	o := w.opts
	if o.Do != cli.DoAttach {
		return nil
	}
	w.attached, err = w.far.Attach(Attachment{
		URL: o.Engine.URL, Run: o.Ctl.Run, Outputs: w.outputs(), Notice: w.screen.Notice,
	})
	if err == nil {
		w.close = append(w.close, w.attached.Close)
		w.total.set(w.attached.Tasks())
	}
	return err
}

// tagged is a source whose tasks get their tags here.
type tagged struct {
	runner.Source
	tag func(*task.Task)
}

// Next returns the next task. See runner.Source.
func (s tagged) Next(number func() uint64) (*task.Task, error) {
	t, err := s.Source.Next(number)
	if err == nil {
		s.tag(t)
	}
	return t, err
}
