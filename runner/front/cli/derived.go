package cli

import (
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// Elsewhere reports whether the tasks run on other machines, or would do so without --dry-run.
func (o *Options) Elsewhere() bool {
	return (o.Do == DoRun || o.Do == DoServe) && (o.Engine.URL != "" || len(o.Engine.Hosts) > 0)
}

// Far reports whether tasks really run on other machines.
func (o *Options) Far() bool { return o.Elsewhere() && !o.Show.DryRun }

// Linked reports whether crew-engine carries out the command line, because that needs the NATS library.
func (o *Options) Linked() bool {
	tool, _, _ := strings.Cut(o.Do, " ")
	return o.Far() || o.Do == DoWork || tool == "engine" || o.Ctl.URL != ""
}

// Fed reports whether clients or other runs bring the tasks.
func (o *Options) Fed() bool { return o.Do != DoRun }

// TakesOffers reports whether tasks can need resources that workers offer.
func (o *Options) TakesOffers() bool { return o.Engine.URL != "" && o.Elsewhere() }

// Copies reports whether files are copied to or from other machines.
func (o *Options) Copies() bool {
	e := &o.Engine
	return len(e.BaseFiles)+len(e.Transfer)+len(e.Return) > 0 || o.Makes.Any()
}

// AllCaps returns the limits by name. It includes, without units, the offers of workers that --needs names
// literally.
func (o *Options) AllCaps() []task.Cap {
	all := o.Queue.Caps
	if !o.TakesOffers() {
		return all
	}
	for item := range strings.SplitSeq(o.Terms.Needs, ",") {
		name, _, _ := strings.Cut(item, ":")
		if task.IsCapName(name) && !slices.ContainsFunc(all, func(c task.Cap) bool { return c.Name == name }) {
			all = append(slices.Clip(all), task.Cap{Name: name})
		}
	}
	return all
}

// Varies reports whether tasks may differ in their directories or environments, and so in the program that a
// name stands for.
func (p *Pool) Varies() bool { return p.Dirs != "" || len(p.Env) > 0 }

// variesDir reports whether Workdir is a template.
func (o *Options) variesDir() bool {
	dir := o.Pool.Workdir
	return strings.Contains(dir, "{") || strings.Contains(dir, o.Command.Replace)
}

// Words returns the command that takes the records; with --worker, that is the command of the workers. It is
// empty if each record is a command line.
func (o *Options) Words() []string {
	if o.Coproc.Words != "" {
		return []string{o.Coproc.Words}
	}
	return o.Command.Words
}

// CommandOptions returns the options that belong to Words, quoted for a shell.
func (o *Options) CommandOptions() (words []string) {
	c, protocol := &o.Command, o.Protocol()
	for _, w := range []struct {
		on   bool
		word string
	}{
		{c.Replace != "" && c.Replace != "{}", "-I " + task.Quote(c.Replace)},
		{c.Shell != "", "--shell " + task.Quote(c.Shell)},
		{c.Stdin, "--stdin"},
		{c.NoArgs, "-n0"},
		{o.Input.JSON, "--input json"},
		{protocol == task.NULProtocol, "--worker-protocol nul"},
		{protocol == task.JSONProtocol, "--worker-protocol json"},
		{protocol != task.NoProtocol, "--worker"},
	} {
		if w.on {
			words = append(words, w.word)
		}
	}
	return words
}

// Protocol returns how records reach the command.
func (o *Options) Protocol() task.Protocol {
	switch {
	case o.Coproc.Words == "":
		return task.NoProtocol
	case o.Pipe.On:
		return task.FilterProtocol
	}
	return o.Coproc.Protocol
}

// ReadsStdin reports whether records come from standard input.
func (in Input) ReadsStdin() bool { return slices.Contains(in.Paths(), "-") }

// Sources returns the number of sources that are linked or multiplied.
func (in Input) Sources() int { return min(1, len(in.Files)) + len(in.Groups) }

// ObjectTasks reports whether each JSON object describes a task. If there is a command, objects are data.
func (o *Options) ObjectTasks() bool { return o.Input.JSON && len(o.Words()) == 0 }

// Silent reports whether crew prints no messages of its own unless something fails.
func (o *Options) Silent() bool { return o.Show.Quiet || o.Output.FailedOnly && !o.Show.DryRun }

// TakesValues reports whether values are added to crew serve, not commands.
func (o *Options) TakesValues() bool { return len(o.Words()) > 0 || o.Input.JSON }
