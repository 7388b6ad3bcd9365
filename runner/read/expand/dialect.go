package expand

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// checkDialect returns an error if script uses syntax that is not in POSIX and that the usual
// shells behind /bin/sh do not understand.
func checkDialect(script string) error {
	unknown, err := bashism(strings.ToValidUTF8(script, "x"))
	switch {
	case unknown != "":
		return fmt.Errorf("%s does not understand %s: add --shell bash", defaultShell, unknown)
	case err != nil && strings.Contains(err.Error(), "unclosed here-document"):
		return errors.New("the here-document has no end: give commands of several lines with -0, a NUL byte behind each")
	}
	return nil // the shell reports other syntax errors
}

// bashism returns a name for the first thing in a script that only bash and similar shells
// understand, or "". A function exported by bash counts, too. It returns an error if bash
// cannot parse the script either.
func bashism(script string) (string, error) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(script), "")
	if err != nil {
		if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), ""); err != nil {
			return "", err
		}
		if le, ok := errors.AsType[syntax.LangError](err); ok {
			return strings.ReplaceAll(le.Feature, "`", ""), nil
		}
		return "the syntax of bash", nil
	}
	defined := map[string]bool{}
	for stack := range stacks(f) {
		name := ""
		switch n := stack[len(stack)-1].(type) {
		case *syntax.FuncDecl:
			if n.Name != nil { // the parser accepts () without a name
				defined[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && !defined[n.Args[0].Lit()] {
				name = inCommand(n)
			}
		case *syntax.WordIter:
			name = braceExpansion(n.Items)
		case *syntax.Subshell:
			if strings.HasPrefix(script[n.Pos().Offset():], "((") {
				name = "(("
			}
		case *syntax.CmdSubst:
			if len(n.Stmts) == 1 && n.Stmts[0].Cmd == nil && len(n.Stmts[0].Redirs) == 1 && n.Stmts[0].Redirs[0].Op == syntax.RdrIn {
				name = "$(<"
			}
		}
		if name != "" {
			return name, nil
		}
	}
	return "", nil
}

// inWords matches commands, as the text of their unquoted words separated by blanks, that hold a
// bashism: the text of a group.
var inWords = lazily(`^(?:(?:\[|test) (?:[^- ][^ ]*)? (==)|(set .*pipefail)|(read (?:-r* )*-r*[adnNst])` +
	`|(\[\[|let|declare|typeset|source|shopt|mapfile|readarray|pushd|popd)) `)

// inCommand returns the first bashism in a command, or "".
func inCommand(call *syntax.CallExpr) string {
	words := join(call.Args, " ", (*syntax.Word).Lit)
	if m := inWords().FindStringSubmatch(words + " "); m != nil {
		return strings.Join(m[1:], "")
	}
	if name := call.Args[0].Lit(); os.Getenv(functionPrefix+name+functionSuffix) != "" {
		return "the function " + name
	}
	return braceExpansion(call.Args)
}

// braceExpansion returns a description of brace expansion if a word is subject to it, or "".
func braceExpansion(words []*syntax.Word) string {
	for _, w := range words {
		c := *w
		syntax.SplitBraces(&c)
		if slices.ContainsFunc(c.Parts, func(p syntax.WordPart) bool { _, ok := p.(*syntax.BraceExp); return ok }) {
			return "{a,b} and {1..3} without quotes"
		}
	}
	return ""
}
