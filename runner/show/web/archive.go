package web

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"crew/runner/keep/series"
)

// families are the metrics of a queue over time, in the order of printing.
var families = []struct {
	of               series.Figure
	name, kind, help string
}{
	{series.Ended, "crew_ended_tasks", "counter", "Tasks that have ended since the first figures that are kept."},
	{series.Failed, "crew_failed_tasks", "counter", "Tasks among them that failed."},
	{series.Running, "crew_running_tasks", "gauge", "Tasks that ran, on average."},
	{series.Waiting, "crew_waiting_tasks", "gauge", "Tasks that waited, on average."},
	{series.Memory, "crew_memory_bytes", "gauge", "Memory of the machine in use, on average."},
	{series.Load, "crew_load_processes", "gauge", "Processes and threads of the machine that ran or waited to, on average."},
}

// printMetrics writes the figures of queues over time as an OpenMetrics exposition with the time of each: by the
// day and then, for the last day, by the minute.
func printMetrics(to io.Writer, dirs []string) error {
	all := make([][]series.Curves, len(dirs))
	for i, dir := range dirs {
		var err error
		if all[i], err = series.ReadFile(dir); err != nil {
			return err
		}
		if all[i] == nil {
			return fmt.Errorf("%s has no figures over time: crew serve --state DIR keeps them", dir)
		}
	}
	w := bufio.NewWriter(to)
	for _, f := range families {
		fmt.Fprintf(w, "# TYPE %s %s\n# HELP %[1]s %[3]s\n", f.name, f.kind, f.help)
		for i, dir := range dirs {
			sample := fmt.Sprintf(`%s{dir="%s"}`, f.name, labelEscapes.Replace(strings.ToValidUTF8(dir, "\ufffd")))
			if f.kind == "counter" {
				sample = strings.Replace(sample, "{", "_total{", 1)
			}
			sum := 0.0
			minutes, days := all[i][0], all[i][1]
			for j, c := range []series.Curves{days, minutes} {
				if j == 1 { // count the beginning of the day, too
					sum = max(sum, total(days, f.of)-total(minutes, f.of))
				}
				for k, p := range c.Points {
					end := c.Start.Add(time.Duration(k+1) * time.Duration(c.Width))
					if p[series.Covered] == 0 || j == 0 && end.After(minutes.Start) || f.of >= series.Memory && p[f.of] == 0 {
						continue
					}
					v := p[f.of]
					if f.kind == "counter" {
						sum += v
						v = sum
					}
					fmt.Fprintf(w, "%s %s %d\n", sample, number(v), min(end.Unix(), time.Now().Unix()))
				}
			}
		}
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

// total returns the sum of a figure over all periods.
func total(c series.Curves, f series.Figure) (sum float64) {
	for _, p := range c.Points {
		sum += p[f]
	}
	return sum
}
