package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/front/cli"
	"crew/runner/read/expand"
	"crew/runner/read/input"
	"crew/runner/show/sink"
)

// source is the open input, with the templates that make tasks from it.
type source struct {
	opts    *cli.Options
	jobs    int    // number of workers
	share   *share // nil without --shard
	input   input.Config
	config  input.TasksConfig // with Blocks, the reader has no records
	reader  *input.Reader
	tasks   *input.Tasks
	results string // directory of --results; "" for none

	transfer, returns []*expand.Text // of files that are copied to and from other machines
}

// openSource opens the input and compiles the templates. jobs is the number of workers.
func openSource(o *cli.Options, jobs int, share *share, stdin io.Reader) (s *source, err error) {
	s = &source{opts: o, jobs: jobs, share: share, input: inputConfig(o, stdin)}
	if err := s.input.Validate(); err != nil {
		return nil, misuse("bad input", err.Error())
	}
	if o.Pipe.On {
		s.reader = input.Named(nil)
		// A larger buffer of a pipe takes fewer reads: reading 10 MB blocks takes a quarter less time.
		if f, ok := stdin.(*os.File); ok {
			kernel.SetPipeSize(int(f.Fd()), cli.DefaultBlock)
		}
		s.config.Blocks, err = input.OpenBlocks(s.blocksConfig(stdin))
	} else {
		s.reader, err = input.Open(s.input)
	}
	if err != nil {
		return nil, err
	}
	if err := s.compile(); err != nil {
		_ = s.reader.Close()
		return nil, err
	}
	return s, nil
}

func inputConfig(o *cli.Options, stdin io.Reader) input.Config {
	cfg := o.Input.Config
	cfg.Stdin, cfg.Comments = stdin, len(o.Words()) == 0 && !o.Input.JSON
	switch {
	case o.Input.CSV:
		cfg.Kind = input.CSV
	case o.Input.JSON:
		cfg.Kind = input.JSON
	}
	if !o.Command.Stdin && o.Coproc.Words == "" {
		cfg.MaxRecord = 2 << 20 // more than fits into arguments
	}
	return cfg
}

// compile compiles the templates. It takes the names of columns from the reader.
func (s *source) compile() error {
	o := s.opts
	c, cfg := o.Command, o.Template()
	cfg.Names, cfg.Fields, cfg.Insert, cfg.Batch, cfg.Caps = s.reader.Names(), o.Input.JSON, expand.AtEnd, c.Batches(), o.AllCaps()
	if err := checkNames(cfg.Names, cfg.Caps); err != nil {
		return err
	}
	if s.mayNameColumn(cfg) {
		cfg.First = s.reader.First()
	}
	protocol := o.Protocol()
	switch {
	case o.Pipe.On:
		cfg.Insert = expand.Refused
	case c.NoArgs:
		cfg.Insert = expand.Nowhere
	case c.Stdin, protocol != task.NoProtocol:
		cfg.Insert = expand.InPlace
	}
	if protocol != task.NoProtocol {
		if err := checkWorker(o, cfg); err != nil {
			return err
		}
	}
	texts := &compiler{opts: o, cfg: cfg}
	files := texts.files(&cfg)
	if texts.err != nil {
		return texts.err
	}
	var err error
	tc := &s.config
	if tc.Template, err = compileCommand(cfg, len(files.Makes) > 0); err != nil {
		return err
	}
	for i, out := range cfg.Outs {
		files.Makes[i].Temp = tc.Template.Holds(out) || protocol == task.JSONProtocol
	}
	if err := s.checkBatches(); err != nil {
		return err
	}
	tc.Objects, tc.Stdin, tc.Protocol, tc.Files = o.ObjectTasks(), c.Stdin, protocol, files
	tc.Limits = input.Limits{Records: c.MaxArgs, Chars: c.MaxChars, ArgMax: argMax(largestEnviron(cfg.Caps))}
	if c.Spread {
		tc.Limits.Workers = s.jobs
	}
	if s.share != nil {
		tc.Share = s.share.begin
	}
	if err := s.compileTexts(texts); err != nil {
		return err
	}
	s.tasks = input.NewTasks(s.reader, *tc)
	if err := s.tasks.CheckColumns(); err != nil {
		return misuse(err.Error(), "")
	}
	return nil
}

// mayNameColumn reports whether a command, a tag or a variable seems to name a column although the columns
// have no names. In other templates, names are refused.
func (s *source) mayNameColumn(cfg expand.Config) bool {
	o := s.opts
	texts := append(slices.Concat(o.Pool.Env, cfg.Words), o.Output.TagString)
	return (o.Input.CSV || o.Input.Colsep != nil) && o.Input.Header == 0 && slices.ContainsFunc(texts, cfg.MayName)
}

// compileCommand compiles the command. If it makes files, {outN} beyond the last --makes is an error,
// unless a column may have that name.
func compileCommand(cfg expand.Config, makes bool) (*expand.Template, error) {
	name, missing := expand.OutName(len(cfg.Outs)), &expand.Text{}
	if makes && !cfg.Fields && !slices.Contains(cfg.Names, name) {
		cfg.Outs = append(slices.Clip(cfg.Outs), missing)
	}
	t, err := expand.New(cfg)
	switch {
	case err != nil:
		return nil, misuse(err.Error(), "")
	case t.Holds(missing):
		return nil, misuse("there is no --makes for {"+name+"}", "add --makes TEMPLATE")
	}
	return t, nil
}

// checkBatches refuses -X with {N}, and -s with a limit that is too low for any record.
func (s *source) checkBatches() error {
	o := s.opts
	c := o.Command
	if c.Spread && s.indexesRecords() {
		return misuse(o.Typed("spread")+" and {N} do not go together", "{N} is the Nth record of a command, "+
			"and how many there are is not known: write {} for all, or -n N")
	}
	if least := leastChars(s.config.Template); c.MaxChars > 0 && c.MaxChars < least {
		return misuse(cmp.Or(o.Typed("max-chars"), o.Typed("spread"))+" leaves no room for a record",
			fmt.Sprintf("with the shortest the command is %d bytes, the limit is %d", least, c.MaxChars))
	}
	return nil
}

// compileTexts compiles the templates that are not part of a command, such as --key and --tag.
func (s *source) compileTexts(c *compiler) error {
	o, tc := s.opts, &s.config
	const late = "it is known only when the task starts"
	for i, template := range [...]string{o.Sched.Key, o.Sched.Cost, o.Terms.Priority, o.Terms.Weight, o.Terms.Needs} {
		tc.Templates[i] = c.text(input.TermNames[i], template, late)
	}
	tc.Results, tc.Dir = c.text("results", o.Output.Results, variesByAttempt), c.text("workdir", o.Pool.Dirs, late)
	for _, env := range o.Pool.Env {
		tc.Env = append(tc.Env, c.text("setenv", env, late))
	}
	tag := o.Output.TagString
	if o.Output.Tag {
		if tag = o.Command.Replace; o.Pipe.On {
			tag = "{#}"
		}
	}
	tc.Tag = c.text("tag-string", tag, "")
	s.transfer, s.returns = c.paths("transfer-file", o.Engine.Transfer), c.paths("return", o.Engine.Return)
	if c.err != nil {
		return c.err
	}
	tc.Travel = append(slices.Clip(s.transfer), s.returns...)
	tc.Caps, tc.Offers, tc.UncountedOffers, tc.Fed = o.Queue.Caps, o.TakesOffers(), o.Show.DryRun, o.Do == cli.DoServe
	if o.Sched.Policy == "keyed" || o.Sched.Policy == "topic" {
		tc.SameWeight = "under --sched " + o.Sched.Policy + " a task runs on the worker of its key, whose only place it takes"
	}
	if err := tc.Terms.Validate(); err != nil {
		return misuse("--"+err.Error(), "")
	}
	if tc.Results != nil {
		dir, _ := tc.Results.Dir()
		s.results = cmp.Or(dir, ".")
	}
	return nil
}

// variesByAttempt says why a template of files cannot hold a placeholder that depends on the worker.
const variesByAttempt = "it may differ from attempt to attempt"

// compiler compiles the templates of options. After the first error it compiles no more.
type compiler struct {
	opts *cli.Options
	cfg  expand.Config
	err  error
}

// text compiles the template of an option. It returns nil if the template is "". slotless says why
// the template cannot hold a placeholder that depends on the worker; it is "" if it can.
func (c *compiler) text(name, template, slotless string) *expand.Text {
	if template == "" || c.err != nil {
		return nil
	}
	compile := expand.NewText
	if name == "results" {
		compile = expand.NewPath
	}
	text, err := compile(template, c.cfg)
	if err == nil && name != "tag-string" && name != "setenv" && c.cfg.MayName(template) {
		err = errors.New("no column has a name: add --header, or write {1} for a column")
	}
	if err != nil {
		c.err = misuse("bad value for --"+name, err.Error())
	} else if p := text.OfSlot(); p != "" && slotless != "" {
		c.err = misuse(c.opts.Typed(name)+" cannot hold "+p, slotless)
	}
	return text
}

// paths compiles templates of file names.
func (c *compiler) paths(name string, templates []string) (texts []*expand.Text) {
	for _, t := range templates {
		if t == "{}" { // --transfer is --transfer-file={}, whatever -I says
			t = c.cfg.Replace
		}
		texts = append(texts, c.text(name, t, variesByAttempt))
	}
	return texts
}

// checkNames refuses columns that share a name, and columns with the name of a limit, because {NAME}
// stands for the units of that limit.
func checkNames(columns []string, caps []task.Cap) error {
	for i, name := range columns {
		if name != "" && slices.Contains(columns[:i], name) {
			return misuse(fmt.Sprintf("two columns are called %q", name), "give one of them another name, or leave out --header and write {1}, {2} and so on")
		}
	}
	for _, c := range caps {
		if slices.Contains(columns, c.Name) {
			of := "--cap "
			if len(c.Units) == 0 {
				of = "--needs "
			}
			return misuse("{"+c.Name+"} stands for the units of "+of+c.Name+", and is a column, too", "give one of them another name")
		}
	}
	return nil
}

// files compiles the templates of files that tasks make or read, and sets cfg.Outs for {out}.
func (c *compiler) files(cfg *expand.Config) (f input.Files) {
	m := &c.opts.Makes
	cfg.Outs = c.paths("makes", m.Outs)
	for i, text := range cfg.Outs {
		f.Makes = append(f.Makes, input.Made{Text: text})
		if name := expand.OutName(i); slices.Contains(cfg.Names, name) {
			c.err = cmp.Or(c.err, misuse("{"+name+"} stands for the file of --makes, and is a column, too", "give the column another name"))
		}
	}
	if m.Stdout != "" {
		f.Makes, f.Stdout = append(f.Makes, input.Made{Text: c.paths("stdout-to", []string{m.Stdout})[0], Temp: true}), true
	}
	if f.Far = c.opts.Elsewhere(); !f.Far { // --workdir is a directory of the other machines otherwise
		f.Dir = c.opts.Pool.Workdir
	}
	f.Reads = c.paths("reads", m.Reads)
	return f
}

// pathsFunc returns a function that expands templates of paths for a task and drops duplicates. It
// returns nil if there are no templates.
func pathsFunc(texts []*expand.Text) func(*task.Task) []string {
	if len(texts) == 0 {
		return nil
	}
	return func(t *task.Task) (list []string) {
		for _, text := range texts {
			for _, path := range input.EachRecord(text, t) {
				if !slices.Contains(list, path) {
					list = append(list, path)
				}
			}
		}
		return list
	}
}

// leastChars returns the length of the shortest command with one record, as -s counts it. That need
// not be the command with an empty record, which is quoted for a shell.
func leastChars(t *expand.Template) int {
	least := math.MaxInt
	for _, record := range []string{"", "x"} {
		var tk task.Task
		t.Fill(&tk, expand.Values{Records: [][]string{{record}}, Seq: 1})
		n := 0
		for _, w := range tk.ArgvOn(1, "", nil) {
			n += len(w) + 1
		}
		least = min(least, n)
	}
	return least
}

// indexesRecords reports whether {N} in the command stands for the Nth of its records, not for a column.
func (s *source) indexesRecords() bool {
	in := s.opts.Input
	columns := in.Sources() > 1 || in.Colsep != nil || in.CSV || in.Header > 0
	return !columns && s.config.Template.Counts()
}

// sameCommand reports whether all tasks run the same program, so that the run must end if the program
// cannot be executed. A queue stays, because a user may install the program.
func (s *source) sameCommand() bool {
	_, same := s.config.Template.Command()
	return same && !s.opts.ObjectTasks() && !s.opts.Fed() && !s.opts.Pool.Varies()
}

// resumes reports whether the same command resumes a run that stopped, even without a journal. It
// does if tasks make all files under temporary names: a file that is up to date then proves that its
// task succeeded.
func (s *source) resumes() bool {
	makes := s.config.Files.Makes
	return len(makes) > 0 && !s.opts.Makes.Always && !slices.ContainsFunc(makes, func(m input.Made) bool { return !m.Temp })
}

// records describes the form of the tasks' records.
func (s *source) records() sink.Records {
	in, c := s.opts.Input, s.opts.Command
	return sink.Records{Several: c.Batches(), Names: s.reader.Names(), Objects: in.JSON && len(s.opts.Words()) > 0}
}

// blocksConfig describes how --pipe cuts the input into blocks.
func (s *source) blocksConfig(stdin io.Reader) input.BlocksConfig {
	in, p := s.opts.Input, s.opts.Pipe
	cfg := input.BlocksConfig{
		Stdin: stdin, Files: in.Files, Format: s.input.Format, Bytes: max(0, p.Block), Records: p.Records, Start: p.Start, End: p.End,
	}
	if p.Block < 0 {
		cfg.Parts = int(-p.Block) * max(1, s.jobs)
	}
	return cfg
}
