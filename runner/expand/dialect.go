package expand

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// checkDialect returns an error if a script holds what POSIX does not have and common
// shells called /bin/sh do not understand.
func checkDialect(script string) error {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(strings.ToValidUTF8(script, "x")), "")
	if err != nil && strings.Contains(err.Error(), "unclosed here-document") {
		return errors.New("the here-document has no end: give commands of several lines with -0, a NUL byte behind each")
	}
	if err != nil {
		return nil // others report a script that cannot be parsed
	}
	if unknown := bashism(f); unknown != "" {
		return fmt.Errorf("%s does not understand %s: add --shell bash", defaultShell, unknown)
	}
	return nil
}

// textOf returns a script with a letter instead of each placeholder.
func textOf(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		if p.kind == literal {
			b.WriteString(p.text)
		} else {
			b.WriteByte('x')
		}
	}
	return b.String()
}

// bashism returns the first thing in f that only bash and its kin understand, as people
// know it, or "". A function that bash has exported is such a thing, too.
func bashism(f *syntax.File) string {
	defined := map[string]bool{}
	for stack := range stacks(f) {
		n := stack[len(stack)-1]
		name := inStatement(n)
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				defined[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			if name == "" && len(n.Args) > 0 && !defined[n.Args[0].Lit()] {
				name = inCommand(n)
			}
		}
		if name != "" {
			return name
		}
	}
	return ""
}

// inStatement returns the bashism that a node is, or "".
func inStatement(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.TestClause:
		return "[["
	case *syntax.ArithmCmd:
		return "(("
	case *syntax.LetClause:
		return "let"
	case *syntax.ProcSubst:
		return n.Op.String()
	case *syntax.CStyleLoop:
		return "for (("
	case *syntax.Redirect:
		switch {
		case n.Op == syntax.RdrAll, n.Op == syntax.AppAll, n.Op == syntax.WordHdoc:
			return n.Op.String()
		case n.Op == syntax.DplOut && strings.Trim(n.Word.Lit(), "0123456789-") != "":
			return ">& and a file"
		}
	case *syntax.BinaryCmd:
		if n.Op == syntax.PipeAll {
			return "|&"
		}
	case *syntax.CaseItem:
		if n.Op == syntax.Fallthrough || n.Op == syntax.Resume {
			return n.Op.String()
		}
	case *syntax.FuncDecl:
		if n.RsrvWord {
			return "function"
		}
	case *syntax.ForClause:
		if n.Select {
			return "select"
		}
	case *syntax.WordIter:
		return braces(n.Items)
	case *syntax.DeclClause:
		if v := n.Variant.Value; v != "export" && v != "readonly" && v != "local" {
			return v
		}
	case *syntax.UnaryArithm:
		if n.Op == syntax.Inc || n.Op == syntax.Dec {
			return n.Op.String() + " in $((...))"
		}
	case *syntax.BinaryArithm:
		if n.Op == syntax.Pow {
			return "** in $((...))"
		}
	}
	return inWord(n)
}

// inWord is inStatement for a part of a word.
func inWord(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.SglQuoted:
		if n.Dollar {
			return "$'"
		}
	case *syntax.DblQuoted:
		if n.Dollar {
			return `$"`
		}
	case *syntax.Assign:
		switch {
		case n.Array != nil, n.Index != nil:
			return "arrays"
		case n.Append:
			return "+="
		}
	case *syntax.ParamExp:
		other := n.Exp != nil && (n.Exp.Op >= syntax.UpperFirst && n.Exp.Op <= syntax.LowerAll || n.Exp.Op == syntax.OtherParamOps)
		switch {
		case n.Index != nil:
			return "arrays"
		case n.Repl != nil, n.Slice != nil, n.Excl, other:
			return "${x/a/b}, ${x:1:2}, ${!x}, ${x^^} and ${x@Q}"
		}
	case *syntax.ArithmExp:
		if n.Bracket {
			return "$["
		}
	case *syntax.CmdSubst:
		if len(n.Stmts) == 1 && n.Stmts[0].Cmd == nil && len(n.Stmts[0].Redirs) == 1 && n.Stmts[0].Redirs[0].Op == syntax.RdrIn {
			return "$(<"
		}
	}
	return ""
}

// inCommand returns the bashism that a command is or holds, or "".
func inCommand(call *syntax.CallExpr) string {
	arg := func(i int) string {
		if i < len(call.Args) {
			return call.Args[i].Lit()
		}
		return ""
	}
	switch name := arg(0); name {
	case "[", "test":
		if before := arg(1); arg(2) == "==" && len(call.Args) > 3 && !strings.HasPrefix(before, "-") {
			return "== in [ ]"
		}
	case "set":
		if slices.ContainsFunc(call.Args, func(w *syntax.Word) bool { return w.Lit() == "pipefail" }) {
			return "set -o pipefail"
		}
	case "read":
		for i := 1; strings.HasPrefix(arg(i), "-"); i++ {
			if option := strings.TrimLeft(arg(i)[1:], "r"); option != "" && strings.IndexByte("adnNst", option[0]) >= 0 {
				return "read -" + option[:1]
			}
		}
	case "source", "shopt", "mapfile", "readarray", "pushd", "popd":
		return name
	default:
		if _, ok := os.LookupEnv(functionPrefix + name + functionSuffix); ok {
			return "the function " + name
		}
	}
	return braces(call.Args)
}

// braces returns a text for words that are subject to brace expansion, or "".
func braces(words []*syntax.Word) string {
	for _, w := range words {
		c := *w
		syntax.SplitBraces(&c)
		if slices.ContainsFunc(c.Parts, func(p syntax.WordPart) bool { _, ok := p.(*syntax.BraceExp); return ok }) {
			return "{a,b} and {1..3} without quotes"
		}
	}
	return ""
}
