package wiring

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"crew/runner/front/cli"
)

// interpreter matches the names of programs that run the file named by their first argument.
var interpreter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((ba|da|k|z|fi)?sh|python[0-9.]*|perl|ruby|node|php|lua|awk|sed|Rscript|source|[.])$`)
})

// separators holds the characters that cannot be part of a file name in a script.
const separators = " \t\r\n;|&()<>`'\"$"

// programs returns the files that a command runs in dir, in the form of journal.Command: the program, the
// script of an interpreter, and programs that a script names by their paths. It returns nil for crew serve, and
// if tasks run on other machines.
func programs(o *cli.Options, dir string) (list []string) {
	if o.Elsewhere() || o.Do != cli.DoRun {
		return nil
	}
	words := o.Words()
	if len(words) == 1 || o.Command.Shell != "" {
		words = strings.FieldsFunc(strings.Join(words, " "), func(r rune) bool { return strings.ContainsRune(separators, r) })
	}
	runs := true // the next word that is no option is the name of a program
	for i, word := range words {
		name := word
		if i == 0 && !strings.Contains(word, "/") {
			name, _ = exec.LookPath(word)
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() && (runs || strings.Contains(word, "/") && st.Mode()&0o111 != 0) {
			list = append(list, stamp(st)+" "+word)
		}
		if !strings.HasPrefix(word, "-") {
			runs = interpreter().MatchString(path.Base(word))
		}
	}
	return list
}
