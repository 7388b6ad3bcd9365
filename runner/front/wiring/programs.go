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

// interpreter is what programs are called that run the file which is their first argument.
var interpreter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((ba|da|k|z|fi)?sh|python[0-9.]*|perl|ruby|node|php|lua|awk|sed|Rscript|source|[.])$`)
})

// separators are between the words of a script, as far as these can be files.
const separators = " \t\r\n;|&()<>`'\"$"

// programs returns the files that a command runs in a directory, in the form of
// journal.Command: the program, what an interpreter is given, and programs of a script that are
// named by their path. Those of other machines are not known.
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
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() {
			st = nil
		}
		if st != nil && (runs || strings.Contains(word, "/") && st.Mode()&0o111 != 0) {
			list = append(list, stamp(st)+" "+word)
		}
		if !strings.HasPrefix(word, "-") {
			runs = interpreter().MatchString(path.Base(word))
		}
	}
	return list
}
