package expand

import (
	"cmp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const hintOutput = `put the output into a variable, as in x=$(…), and use "$x" where it is only text`

// around refuses the mark if what its statement prints, which may be the value, is
// read as more than text by something around it.
func (s *site) around() place {
	outside, printed := false, true
	for i, n := range slices.Backward(s.stack) {
		if st, ok := n.(*syntax.Stmt); ok {
			if !outside {
				outside, printed = true, s.prints(i)
			}
			if printed && s.feedsShell(st) {
				return refuseText
			}
		}
		if r, ok := n.(*syntax.Redirect); ok && (r.Op == syntax.WordHdoc || r.Hdoc != nil) {
			if p := s.reads(); p.err != nil {
				return p
			}
		}
		if !outside || !printed {
			continue
		}
		if p := s.flows(i); p.err != nil {
			return p
		}
		if b, ok := n.(*syntax.BinaryCmd); ok && s.stack[i+1] == syntax.Node(b.X) && counts(b.Y) {
			printed = false
		}
	}
	return place{}
}

// feedsShell reports whether a statement writes to a process that may run the text
// it reads. Such an argument is a redirection to yash.
func (s *site) feedsShell(st *syntax.Stmt) bool {
	runs := func(p syntax.WordPart) bool {
		sub, ok := p.(*syntax.ProcSubst)
		return ok && sub.Op == syntax.CmdOut && slices.ContainsFunc(sub.Stmts, s.variables.runsInput)
	}
	inWord := func(w *syntax.Word) bool { return w != nil && slices.ContainsFunc(w.Parts, runs) }
	if slices.ContainsFunc(st.Redirs, func(r *syntax.Redirect) bool { return inWord(r.Word) }) {
		return true
	}
	call, ok := st.Cmd.(*syntax.CallExpr)
	return ok && slices.ContainsFunc(call.Args, inWord)
}

// flows refuses the mark if what its statement prints is read as more than text by
// stack[i].
func (s *site) flows(i int) place {
	below := s.stack[i+1:]
	switch n := s.stack[i].(type) {
	case *syntax.Word:
		if isArithmetic(s.stack[i-1], n) {
			return refuse("cannot be in a command in arithmetic, which evaluates what that prints", hintOutput)
		}
	case *syntax.CallExpr:
		if w, ok := below[0].(*syntax.Word); ok {
			return s.passed(n, w)
		}
	case *syntax.Assign:
		if n.Value != below[0] {
			break
		}
		name, a := "", known(n.Value)
		if n.Name != nil {
			name = n.Name.Value
		} else {
			name, _, _ = strings.Cut(a.text, "=")
		}
		if _, ok := s.stack[i-1].(*syntax.DeclClause); ok && (a.split || !syntax.ValidName(name)) {
			return refuse("cannot be in a command whose output a declaration may split into several", `write quotes around it, as in x="$(…)"`)
		}
		return s.stored(name)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			return refuseName
		}
	case *syntax.ArrayElem:
		return s.stored(s.stack[i-2].(*syntax.Assign).Name.Value)
	case *syntax.WordIter:
		return s.stored(n.Name.Value)
	case *syntax.Redirect:
		if n.Op == syntax.DplIn || n.Op == syntax.DplOut {
			return refuseDescriptor // bash expands it twice
		}
		if st, ok := s.stack[i-1].(*syntax.Stmt); ok && s.variables.runsInput(st) {
			return refuseText
		}
	case *syntax.ProcSubst:
		return s.reads()
	case *syntax.ParamExp:
		if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			return s.stored(n.Param.Value)
		}
	case *syntax.BinaryCmd:
		if (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && below[0] == syntax.Node(n.X) {
			if s.variables.runsInput(n.Y) {
				return refuseText
			}
			return s.reads()
		}
	}
	return place{}
}

var refuseText = refuse("cannot be in text for a shell to run", `give it to that shell as an argument, as in sh -c '… "$1"' sh {}`)

// reads refuses the mark if it stands in text that the script may read into a
// variable whose value the shell evaluates.
func (s *site) reads() place {
	for _, name := range s.variables.read {
		if p := s.assigned(name); name == "" || p.err != nil || p.how == number {
			return refuse("cannot be in text that may be read into "+cmp.Or(name, "a variable")+", which the shell evaluates", "read it into another variable")
		}
	}
	return place{}
}

// counts reports whether a statement prints numbers alone.
func counts(st *syntax.Stmt) bool {
	call, ok := st.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && call.Args[0].Lit() == "wc"
}

// readers are programs that print something of the file that they are given, but not
// its name.
var readers = []string{"[", "awk", "cat", "curl", "cut", "date", "ffprobe", "grep", "gunzip", "head", "identify", "jq", "sed", "sort",
	"soxi", "stat", "tail", "test", "tr", "wget", "xz", "zcat"}

// prints reports whether the mark's statement, stack[i], may print the value. It
// does not if the value only names a file to read or write, or is an argument of a
// program known to print something else.
func (s *site) prints(i int) bool {
	for j := i + 1; j < len(s.stack); j++ {
		switch n := s.stack[j].(type) {
		case *syntax.Redirect:
			return n.Hdoc != nil || n.Op == syntax.WordHdoc
		case *syntax.CallExpr:
			if len(n.Args) == 0 || n.Args[0] == s.stack[j+1] {
				return true
			}
			return s.c.batch || !slices.Contains(readers, known(n.Args[0]).text)
		}
	}
	return true
}

// passed refuses the mark if what its statement prints becomes a word of a command
// that reads it as more than text.
func (s *site) passed(call *syntax.CallExpr, word *syntax.Word) place {
	args, at := words(call), slices.Index(call.Args, word)
	if at < 0 {
		return place{}
	}
	i := skipPrefixes(args)
	switch {
	case i == len(args), i == at:
		return refuse("cannot be in a command that prints which command to run, or gives it arguments", "write the name of the command")
	case i < at && s.evaluates(args[i:], at-i):
		return refuseArguments(args[i].text+", even as what another command prints", ": it evaluates them", hintOutput)
	}
	if sc, ok := scriptOf(args, s.c.family); ok && sc.from <= at && at < sc.to {
		return refuse("cannot be in a command that prints a script for "+sc.shell, `pass it as an argument, as in sh -c '… "$1"' sh {}`)
	}
	if i < at && (args[i].text == "set" || s.variables.functions[args[i].text] || givesArguments(args, at)) {
		if p := s.variables.passed(); p.err != nil || p.how == number {
			return refuse("cannot be in a command whose output becomes an argument that the script evaluates", hintOutput)
		}
	}
	if _, ok := word.Parts[0].(*syntax.ProcSubst); ok && (readsScript(args) || args[0].text == "." || args[0].text == "source") {
		return refuseText
	}
	if args[at].text == "" && mayBeOption(args, at) {
		return refuse("cannot be in a command whose output may become an option", "write -- before it")
	}
	runs := func(a arg) bool { return isShell(a) || a.static() && wraps(a.text) }
	if args[at].split && slices.ContainsFunc(args[:at], runs) {
		return refuse("cannot be in a command whose output may become options", `write quotes around it, as in "$(…)"`)
	}
	return unclear(args[i:], at-i)
}

// evaluates reports whether a builtin of the shell evaluates args[at].
func (s *site) evaluates(args []arg, at int) bool {
	before := args[at-1]
	switch builtins(args[0].text, s.c.family) {
	case aNumber:
		return numeric(args, s.c.family)
	case ofTest:
		return args[at].split || at > 1 && (!before.known || before.text == "-v" || before.text == "-R") ||
			s.c.family.korn() && before.text == "-t" || numeric(args, s.c.family)
	case ofPrintf:
		return at == 1 && args[at].split || at > 1 && strings.HasPrefix(args[1].text, "-") || numeric(args, s.c.family)
	case ofExport:
		name, _, ok := strings.Cut(args[at].text, "=")
		return !ok || args[at].split || !syntax.ValidName(name) || s.stored(name).err != nil
	case unknownRule:
		return true
	}
	return false
}

// stored refuses the mark if what its statement prints is stored in a variable whose
// value the shell evaluates.
func (s *site) stored(name string) place {
	if p := s.assigned(name); p.err != nil || p.how == number {
		return refuse("cannot be in a command whose output is stored in "+name+", which the shell evaluates", "use another variable")
	}
	return place{}
}
