package expand

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"crew/runner/task"
)

// dialect knows what /bin/sh understands beyond POSIX. It asks that shell, but only
// about what a script holds. It is safe for concurrent use.
type dialect struct {
	functions []string // exported by bash

	mu    sync.Mutex
	known map[string]bool // by feature
}

// feature is something that not every shell understands.
type feature struct {
	name  string // as people know it
	probe string // a script that succeeds in a shell that understands it
}

func newDialect() *dialect {
	d := &dialect{known: make(map[string]bool)}
	for _, e := range os.Environ() {
		if name, ok := strings.CutPrefix(e, functionPrefix); ok {
			name, _, _ = strings.Cut(name, functionSuffix+"=")
			d.functions = append(d.functions, name)
		}
	}
	return d
}

// check returns an error if the script holds what /bin/sh does not understand.
func (d *dialect) check(script string) error {
	called := func(name string) bool { return strings.Contains(script, name) }
	if !suspect(script) && !slices.ContainsFunc(d.functions, called) {
		return nil
	}
	var unknown string
	err := d.each(script, func(ft feature) bool {
		if !d.knows(ft) {
			unknown = ft.name
		}
		return unknown == ""
	})
	if err != nil || unknown == "" {
		return nil // others report a script that cannot be parsed
	}
	return fmt.Errorf("%s does not understand %s: add --shell bash", defaultShell, unknown)
}

// each calls yield with each feature in a script until that returns false.
func (d *dialect) each(script string, yield func(feature) bool) error {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(strings.ToValidUTF8(joined(script), "x")), "")
	if err != nil {
		return err
	}
	more := true
	syntax.Walk(f, func(n syntax.Node) bool {
		if ft := d.featureOf(n, script); more && ft.name != "" {
			more = yield(ft)
		}
		return more
	})
	return nil
}

// knows asks the shell, once, whether it understands a feature.
func (d *dialect) knows(ft feature) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, asked := d.known[ft.name]
	if !asked {
		known = succeeds(ft.probe)
		d.known[ft.name] = known
	}
	return known
}

// succeeds runs a script in /bin/sh. If it cannot be run, it counts as a success.
func succeeds(script string) bool {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return true
	}
	defer null.Close()
	p, err := os.StartProcess(defaultShell, []string{"sh", "-c", script}, &os.ProcAttr{Files: []*os.File{null, null, null}})
	if err != nil {
		return true
	}
	st, err := p.Wait()
	return err != nil || st.Success()
}

// joined returns a script with continued lines joined, as shells do before anything
// else. The parser does not do so inside of an operator.
func joined(script string) string { return strings.ReplaceAll(script, "\\\n", "") }

// suspect reports whether a script may hold a feature. It is quick, so most scripts
// without one are not parsed for nothing.
func suspect(s string) bool {
	s = joined(s)
	if strings.ContainsAny(s, "{([`") {
		return true
	}
	for _, text := range [...]string{
		"&>", ">&", "|&", ";&", "<<<", "==", "+=", "$'", `$"`, "RANDOM", "pipefail", "source", "function", "select", "let", "declare",
		"typeset", "shopt", "mapfile", "readarray", "pushd", "popd", "read", "local", "export",
	} {
		if strings.Contains(s, text) {
			return true
		}
	}
	return false
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

// featureOf returns the feature that a node is, or one without a name.
func (d *dialect) featureOf(n syntax.Node, script string) feature {
	switch n := n.(type) {
	case *syntax.TestClause:
		return feature{"[[", `[[ a == a* ]]`}
	case *syntax.ArithmCmd:
		return feature{"((", `x=0; ((x=1)); test $x = 1`}
	case *syntax.ProcSubst:
		return feature{n.Op.String(), `read x < <(echo a) && test "$x" = a`}
	case *syntax.CStyleLoop:
		return feature{"for ((", `for ((i=0; i<1; i++)); do :; done`}
	case *syntax.Redirect:
		switch n.Op {
		case syntax.RdrAll, syntax.AppAll:
			return feature{n.Op.String(), `test -z "$(echo a &>/dev/null; wait)"`}
		case syntax.DplOut:
			if to := n.Word.Lit(); strings.Trim(to, "0123456789-") != "" {
				return feature{">& and a file", `: >&/dev/null`}
			}
		case syntax.WordHdoc:
			return feature{"<<<", `read x <<<a && test "$x" = a`}
		}
	case *syntax.BinaryCmd:
		if n.Op == syntax.PipeAll {
			return feature{"|&", `: |& :`}
		}
	case *syntax.CaseItem:
		if n.Op == syntax.Fallthrough || n.Op == syntax.Resume {
			return feature{n.Op.String(), `case a in a) ;& b) ;; esac; case a in a) ;;& b) ;; esac`}
		}
	case *syntax.FuncDecl:
		if n.RsrvWord {
			return feature{"function", `function f { :; } && f`}
		}
	case *syntax.LetClause:
		return feature{"let", `let x=1`}
	case *syntax.WordIter:
		return braces(n.Items)
	case *syntax.ForClause:
		if n.Select {
			return feature{"select", `select x in a; do :; done; :`}
		}
	case *syntax.DeclClause:
		return declaration(n)
	case *syntax.CallExpr:
		return d.call(n, script)
	}
	return inWord(n, script)
}

// inWord is featureOf for what stands in a word.
func inWord(n syntax.Node, script string) feature {
	switch n := n.(type) {
	case *syntax.SglQuoted:
		if n.Dollar {
			return feature{"$'", `test $'a\x62' = ab`}
		}
	case *syntax.DblQuoted:
		if n.Dollar {
			return feature{`$"`, `test $"a" = a`}
		}
	case *syntax.Assign:
		return assignment(n)
	case *syntax.ParamExp:
		return expansion(n, script)
	case *syntax.ArithmExp:
		if n.Bracket {
			return feature{"$[", `test $[1+1] = 2`}
		}
		name, isWord := n.X.(*syntax.Word)
		if b, ok := n.X.(*syntax.BinaryArithm); ok {
			name, isWord = b.X.(*syntax.Word)
		}
		if isWord && name.Lit() == "RANDOM" {
			return random(script)
		}
	case *syntax.UnaryArithm:
		if n.Op == syntax.Inc || n.Op == syntax.Dec {
			return feature{n.Op.String() + " in $((...))", `x=1; test $((++x)) = 2`}
		}
	case *syntax.BinaryArithm:
		if n.Op == syntax.Pow {
			return feature{"** in $((...))", `test $((2**3)) = 8`}
		}
	case *syntax.CmdSubst:
		if len(n.Stmts) == 1 && n.Stmts[0].Cmd == nil && len(n.Stmts[0].Redirs) == 1 && readsFile(n.Stmts[0].Redirs[0]) {
			return feature{"$(<", `test -n "$(</proc/self/status)"`}
		}
	}
	return feature{}
}

// readsFile reports whether r is a plain <.
func readsFile(r *syntax.Redirect) bool { return r.Op == syntax.RdrIn && r.N == nil }

// braces returns the feature of words that are subject to brace expansion.
func braces(words []*syntax.Word) feature {
	expands := func(w *syntax.Word) bool {
		c := *w
		syntax.SplitBraces(&c)
		return slices.ContainsFunc(c.Parts, func(p syntax.WordPart) bool { _, ok := p.(*syntax.BraceExp); return ok })
	}
	if slices.ContainsFunc(words, expands) {
		return feature{"{a,b} and {1..3} without quotes", `set -- {a,b}{1..2}; test $# = 4`}
	}
	return feature{}
}

func assignment(n *syntax.Assign) feature {
	switch {
	case n.Array != nil || n.Index != nil:
		return feature{"arrays", `a=(1 2) && a[1]=3 && test "${a[1]}" = 3`}
	case n.Append:
		return feature{"+=", `x=a; x+=b; test "$x" = ab`}
	}
	return feature{}
}

func expansion(n *syntax.ParamExp, script string) feature {
	switch {
	case n.Index != nil:
		return feature{"arrays", `a=(1 2) && a[1]=3 && test "${a[1]}" = 3`}
	case n.Repl != nil:
		return feature{"${x/a/b}", `x=aa; test "${x//a/b}" = bb`}
	case n.Slice != nil:
		return feature{"${x:1:2}", `x=abc; test "${x:1:1}" = b`}
	case n.Excl:
		return feature{"${!x}", `x=y y=z; test "${!x}" = z`}
	case n.Exp != nil && n.Exp.Op >= syntax.UpperFirst && n.Exp.Op <= syntax.LowerAll:
		return feature{"${x^^} and ${x,,}", `x=aB; test "${x^^}${x,,}" = ABab`}
	case n.Exp != nil && n.Exp.Op == syntax.OtherParamOps:
		return feature{"${x@Q}", `x=a; : "${x@Q}"`}
	case n.Param != nil && n.Param.Value == "RANDOM" && n.Exp == nil:
		return random(script)
	}
	return feature{}
}

func random(script string) feature {
	if strings.Contains(script, "RANDOM=") {
		return feature{}
	}
	return feature{"$RANDOM", `test -n "$RANDOM"`}
}

// declaration returns the feature of a declare, typeset, local, export or readonly.
func declaration(n *syntax.DeclClause) feature {
	name, option := n.Variant.Value, ""
	if len(n.Args) > 0 && n.Args[0].Naked && n.Args[0].Value != nil {
		option = n.Args[0].Value.Lit()
	}
	switch letters := strings.TrimPrefix(option, "-"); {
	case name != "local" && name != "export" && name != "readonly":
		return feature{name, "command -v " + name}
	case len(letters) == len(option) || letters == "" || letters == "p" || strings.Trim(letters, "aAfgilnprtux") != "":
		return feature{}
	}
	return feature{name + " " + option, "f() { " + name + " " + option + " f; }; f"}
}

// call returns the feature of a command.
func (d *dialect) call(n *syntax.CallExpr, script string) feature {
	if len(n.Args) == 0 {
		return feature{}
	}
	name := n.Args[0].Lit()
	arg := func(i int) string {
		if i < len(n.Args) {
			return n.Args[i].Lit()
		}
		return ""
	}
	switch name {
	case "[", "test":
		for i := 2; i < len(n.Args)-1; i++ {
			if before := arg(i - 1); arg(i) == "==" && before != "=" && before != "!=" && !strings.HasPrefix(before, "-") {
				return feature{"== in [ ]", `[ a == a ]`}
			}
		}
	case "set":
		if i := slices.IndexFunc(n.Args, func(w *syntax.Word) bool { return w.Lit() == "pipefail" }); i > 1 && strings.HasSuffix(arg(i-1), "o") {
			return feature{"set -o pipefail", `set -o pipefail`}
		}
	case "read":
		for i := 1; strings.HasPrefix(arg(i), "-"); i++ {
			if option := strings.TrimLeft(arg(i)[1:], "r"); option != "" && strings.IndexByte("adnNst", option[0]) >= 0 {
				value := " 1"
				if option[0] == 'a' || option[0] == 's' {
					value = ""
				}
				return feature{"read -" + option[:1], "echo a1 | read -" + option[:1] + value + " x"}
			}
		}
	case "source", "shopt", "mapfile", "readarray", "pushd", "popd":
		if !defines(script, name) {
			return feature{name, "command -v " + name}
		}
	default:
		if slices.Contains(d.functions, name) && !defines(script, name) {
			return feature{"the function " + name, "command -v -- " + task.Quote(name)}
		}
	}
	return braces(n.Args)
}

// defines reports whether a script seems to define a function.
func defines(script, name string) bool {
	return strings.Contains(script, name+"(") || strings.Contains(script, name+" (")
}
