package expand

import (
	"os"
	"strings"
)

// Bash exports a function as an entry of the environment whose name has this prefix
// and suffix, and whose value begins with "() {".
const (
	functionPrefix = "BASH_FUNC_"
	functionSuffix = "%%"
)

// asFunction returns what has to precede the words of a command that begins with
// name, if that is a function exported by bash and no program.
func asFunction(name string) []string {
	value, ok := os.LookupEnv(functionPrefix + name + functionSuffix)
	if !ok || !strings.HasPrefix(value, "() {") || strings.ContainsAny(name, " \t") || !plainText(name) || isProgram(name) {
		return nil
	}
	return []string{"bash", "-c", name + ` "$@"`}
}

// isProgram reports whether a directory of PATH has a program of that name.
func isProgram(name string) bool {
	for dir := range strings.SplitSeq(os.Getenv("PATH"), ":") {
		if dir == "" {
			dir = "."
		}
		if st, err := os.Stat(dir + "/" + name); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return true
		}
	}
	return false
}
