package runner

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSizes limits the lines of files and functions, and the fields of Configs, other than in tests.
func TestSizes(t *testing.T) {
	const mostLines, mostBody, mostFields = 450, 60, 8
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		lines := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }
		if n := set.File(file.Pos()).LineCount() - 1; n > mostLines {
			t.Errorf("%s has %d lines", path, n)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if lines(n) > mostBody {
					t.Errorf("%s: %s has %d lines", path, n.Name.Name, lines(n))
				}
			case *ast.TypeSpec:
				if s, is := n.Type.(*ast.StructType); is && strings.HasSuffix(n.Name.Name, "Config") && s.Fields.NumFields() > mostFields {
					t.Errorf("%s: %s has %d fields", path, n.Name.Name, s.Fields.NumFields())
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
}
