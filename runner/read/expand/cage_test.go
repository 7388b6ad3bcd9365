package expand

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// cage runs scripts that no one has reviewed. They run in an empty directory, find only a few programs,
// and have little time and space. If root runs the tests, the scripts run as nobody.
type cage struct {
	dir, bin string
	shells   []string // values of --shell
	env      []string // variables that scripts use
	user     *syscall.Credential
	timeout  time.Duration // how long scripts may wait for something that never happens
	tries    int           // number of calls of try, which alternates between the locales
}

func newCage(t testing.TB) *cage {
	t.Helper()
	c := &cage{dir: t.TempDir(), bin: t.TempDir(), shells: installedShells(), env: []string{"s=eval", "h=sh", "o=-i", "r=-c", "n=x", "k=3"}, timeout: crewtest.Patience}
	for _, name := range []string{"cat", "env", "sh", "bash", "busybox", "xargs", "find", "timeout", "nice", "flock", "printf", "seq", "head"} {
		link(t, c.bin, name)
	}
	// Programs that run other programs, or pass an argument to a shell, like the real ones of the same
	// names, and p, which prints its arguments
	require.NoError(t, os.CopyFS(c.bin, os.DirFS("testdata/cage")))
	if os.Getuid() == 0 {
		c.user = &syscall.Credential{Uid: 65534, Gid: 65534}
		require.NoError(t, os.Chown(c.dir, 65534, 65534))
		for dir := c.dir; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
	}
	return c
}

// link makes an installed program available in a directory.
func link(t testing.TB, dir, name string) {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
}

// A script may run in the cage unless it matches unsafeText or unsafeNames: names outside of the cage, and
// builtins that affect other processes or limit this one. harmless matches texts that unsafeText would
// match although they name nothing outside of the cage.
var (
	harmless    = regexp.MustCompile(`\$\{[a-z@*]/[^ \n;]*\}|/dev/(stdin|fd/3)|\{//?|\{[^{}]?(\{\})?\.\.|~/`)
	unsafeText  = regexp.MustCompile(`/|\.\.|pwned|\x00`)
	unsafeNames = regexp.MustCompile(`kill|suspend|limit|disown|umask|chdir|zmod|zcomp|autoload`)
	letters     = regexp.MustCompile(`[^a-z]`)
)

func caged(script string) bool {
	return !unsafeText.MatchString(harmless.ReplaceAllString(script, "")) && !unsafeNames.MatchString(letters.ReplaceAllString(script, ""))
}

// attempt is a script made from a template and a value. If a shell ever evaluates the value, this creates
// the file.
type attempt struct {
	template, value, shell, file string
	argv                         []string
}

func (a attempt) String() string {
	return fmt.Sprintf("%s executes a value:\n template %q\n value    %q\n command  %q", a.shell, a.template, a.value, a.argv[scriptAt(a.argv)])
}

// newAttempt compiles a template for a shell and fills it in with a value, in which "pwned" stands for the
// file. n selects variants: the template is a script for the shell, for a shell that the command names,
// or for a shell that a script names; it takes one or two records with one or two columns, and
// may get the record at its end; and the value may be in the name of a file that the command makes. ok is
// false if the template or the value is refused.
func newAttempt(template, value, shell string, n int) (a attempt, ok bool) {
	a = attempt{template: template, shell: shell, file: "pwned" + strconv.Itoa(n)}
	a.value = strings.ReplaceAll(value, "pwned", a.file)
	cfg := Config{Words: []string{template}, Shell: shell, Insert: []Insert{AtEnd, InPlace}[n%2], Batch: n%5 == 0}
	switch {
	case n%7 == 0:
		cfg.Words = append(strings.Fields(shell), "-c", template)
		cfg.Shell = ""
	case n%7 == 3:
		cfg.Words = []string{distinct[n/7%len(distinct)] + " -c '" + escape(template) + "'"}
	case shell == "/bin/sh":
		cfg.Shell = ""
	}
	if n%4 > 1 {
		for i, w := range cfg.Words {
			cfg.Words[i] = strings.ReplaceAll(w, "{}", "{out}")
		}
		out, err := NewText([]string{"{}", "x{}/{}", "{/}"}[n/4%3], Config{})
		if err != nil {
			return a, false
		}
		cfg.Outs = []*Text{out}
	}
	tm, err := New(cfg)
	if err != nil {
		return a, false
	}
	record := []string{a.value}
	if n%3 == 0 || strings.Contains(template, "{2") {
		record = append(record, a.value)
	}
	v := Values{Records: [][]string{record}, Seq: 7}
	if cfg.Batch {
		v.Records = append(v.Records, []string{"x", a.value})
	}
	a.argv, ok = fillIn(tm, v)
	prefix := append(strings.Fields(shell), "-c")
	return a, ok && len(a.argv) > len(prefix) && slices.Equal(a.argv[:len(prefix)], prefix)
}

// fillIn returns a command for v. ok is false if a value must be a number and is not.
func fillIn(tm *Template, v Values) (argv []string, ok bool) {
	tk := task.Task{Makes: &task.Making{Temp: ".crew-12345678."}}
	tm.Fill(&tk, v)
	return tk.ExecOn(1, "", nil), tk.Err == nil
}

// locales are the locales in which scripts run. In the second one, some shells recognize blanks that are
// not ASCII.
var locales = [2]string{"C", "C.UTF-8"}

// driver evaluates each of its arguments in a subshell and reports the end of each.
const driver = `p() { printf '%s\0' "$@"; }
while [ $# -gt 0 ]; do
	(oracle=$1; shift $#; eval "$oracle") </dev/null >/dev/null 2>&1 3>&-
	printf '%s\n' "$#" >&3
	shift
done`

const limits = `ulimit -t 2; ulimit -f 1000; [ "$1" != nobody ] || ulimit -p 500; shift; exec "$@"`

// run runs a command in the cage and waits for its background processes. It returns the files that
// exist at the end. Output to descriptor 3 is copied to out.
func (c *cage) run(t testing.TB, argv []string, out io.Writer) (left map[string]bool) {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	require.NoError(t, err)
	user := "self"
	if c.user != nil {
		user = "nobody"
	}
	for _, name := range []string{"a", "b"} { // for patterns to match
		crewtest.WriteFile(t, filepath.Join(c.dir, name), "p a\n", 0o644)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", limits, "sh", user, path}, argv[1:]...)...)
	cmd.Dir = c.dir
	cmd.Env = append([]string{"PATH=" + c.bin, "HOME=" + c.dir, "LC_ALL=" + locales[c.tries%2], "TMPDIR=" + c.dir}, c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.user}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	alive, held, err := os.Pipe() // open until the last process has ended
	require.NoError(t, err)
	defer alive.Close()
	cmd.ExtraFiles = []*os.File{w, held}
	require.NoError(t, cmd.Start(), "%q", argv)
	w.Close()
	held.Close()
	timer := time.AfterFunc(c.timeout, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	io.Copy(out, r)
	io.Copy(io.Discard, alive)
	timer.Stop()
	cmd.Wait()
	left = map[string]bool{}
	files, err := os.ReadDir(c.dir)
	require.NoError(t, err)
	for _, f := range files {
		left[f.Name()] = true
		os.RemoveAll(filepath.Join(c.dir, f.Name()))
	}
	return left
}

// try returns the attempts that execute the value, both together with others in one process and
// alone, as crew would run them. All attempts must be for one shell.
func (c *cage) try(t testing.TB, list []attempt) (bad []attempt) {
	t.Helper()
	return slices.DeleteFunc(c.together(t, list), func(a attempt) bool { return !c.run(t, a.argv, io.Discard)[a.file] })
}

// together runs the attempts, all for one shell, in one process and returns those that executed
// the value. Attempts with a template that never ends run again alone.
func (c *cage) together(t testing.TB, list []attempt) (bad []attempt) {
	t.Helper()
	c.tries++
	var alone []attempt
	for len(list) > 0 {
		argv := append(append([]string{}, list[0].argv[:scriptAt(list[0].argv)]...), driver, "sh")
		for _, a := range list {
			require.NotContains(t, strings.Join(a.argv, ""), "\x00", "%s cannot run %q", a.shell, a.template)
			argv = append(argv, inOne(a.argv))
		}
		var out bytes.Buffer
		left := c.run(t, argv, &out)
		for _, a := range list {
			if left[a.file] {
				bad = append(bad, a)
			}
		}
		ran := bytes.Count(out.Bytes(), []byte("\n"))
		if ran >= len(list) {
			break
		}
		stuck := list[ran].template
		list = slices.DeleteFunc(list[ran+1:], func(a attempt) bool {
			if a.template == stuck {
				alone = append(alone, a)
			}
			return a.template == stuck
		})
	}
	for _, a := range alone {
		if c.run(t, a.argv, io.Discard)[a.file] {
			bad = append(bad, a)
		}
	}
	return bad
}

// payloads are values that create the file pwned if a shell reads them as syntax.
var payloads = quotedLines("testdata/payloads.txt")

// quotedLines returns the lines of a file that are quoted as in Go.
func quotedLines(path string) (list []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if s, err := strconv.Unquote(strings.TrimSpace(line)); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// attack is a template of testdata/attacks.txt.
type attack struct {
	template string
	value    string // a value that its twin executes
	read     bool   // the twin holds the value itself, and not a variable
}

// readAttacks returns the templates of testdata/attacks.txt that must not execute a value. It leaves out
// those under a heading that says why they may execute one.
func readAttacks(t testing.TB) (inside []attack) {
	t.Helper()
	text := crewtest.ReadFile(t, cmp.Or(os.Getenv("ATTACK"), "testdata/attacks.txt"))
	seen := map[string]bool{}
	kind, what := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			kind, what, _ = strings.Cut(heading, ": ")
		}
		if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## ") || line == "" {
			continue
		}
		line = strings.NewReplacer(`\\`, `\\`, `\"`, `\"`, `"`, `\"`).Replace(line)
		template, err := strconv.Unquote(`"` + line + `"`)
		require.NoError(t, err, line)
		require.True(t, caged(template), "the cage is not safe for %q", template)
		require.False(t, seen[template], "%q stands there twice", template)
		seen[template] = true
		if kind == "outside" {
			continue
		}
		value, err := strconv.Unquote(what)
		require.NoError(t, err, what)
		inside = append(inside, attack{template, value, kind == "read"})
	}
	return inside
}

// TestTwins checks that each attack reaches a place where a shell would execute a value.
func TestTwins(t *testing.T) {
	c := newCage(t)
	inside := readAttacks(t)
	left := map[string]attack{}
	for n, a := range inside {
		if !a.read || n%8 == 0 || crewtest.Soaking() {
			left[a.template] = a
		}
		if a.read { // no twin with a variable can show that a value is evaluated there
			_, err := New(Config{Words: []string{a.template}, Shell: "bash"})
			if err != nil && evaluates.MatchString(err.Error()) {
				t.Errorf("%q shows nothing, since it is refused as evaluated: %v", a.template, err)
			}
		}
	}
	// An attack with background processes may, rarely, create no file in time: it is tried again.
	for _, shell := range slices.Repeat(distinct, 4) {
		var list []attempt
		for n, a := range inside {
			if left[a.template] != a {
				continue
			}
			twin := attempt{template: a.template, shell: shell, file: "pwned" + strconv.Itoa(n)}
			twin.value = strings.ReplaceAll(a.value, "pwned", twin.file)
			script := strings.ReplaceAll(a.template, "{}", twin.value)
			if !a.read {
				script = "export _v='" + escape(twin.value) + "'; " + strings.ReplaceAll(a.template, "{}", `"$_v"`)
			}
			twin.argv = append(strings.Fields(shell), "-c", script)
			list = append(list, twin)
		}
		for _, a := range c.together(t, list) {
			delete(left, a.template)
		}
	}
	for _, a := range left {
		t.Errorf("%q shows nothing: its twin does not execute %q", a.template, a.value)
	}
}

// TestBuiltins checks that the table has all builtins of the installed shells.
func TestBuiltins(t *testing.T) {
	bash, err := exec.Command("bash", "-c", "compgen -b").Output()
	require.NoError(t, err)
	busybox, _ := exec.Command("busybox", "ash", "-c", "help | tail -n +3").Output() // if it is installed
	for _, name := range strings.Fields(string(bash) + string(busybox)) {
		_, ok := useOf(name)
		require.True(t, ok, name)
	}
}

var evaluates = regexp.MustCompile(`may evaluate them|part of a number|assigned to`)

// cagedIdioms returns the common idioms, with names of programs that are in the cage.
func cagedIdioms(t testing.TB) []string {
	t.Helper()
	var list []string
	for _, i := range readIdioms(t) {
		if caged(i.script) {
			list = append(list, strings.NewReplacer("prog", "p", "sync", "p").Replace(i.script))
		}
	}
	return list
}

// TestAttacks tries templates that have failed, or might, and the common idioms.
func TestAttacks(t *testing.T) {
	c := newCage(t)
	inside := readAttacks(t)
	for _, idiom := range cagedIdioms(t) {
		inside = append(inside, attack{template: idiom})
	}
	values := 1
	if crewtest.Soaking() {
		values = 12
	}
	seen := map[string]bool{}
	for k, shell := range c.shells {
		var list []attempt
		for n, in := range inside {
			if (n+k)%8 != 0 && !crewtest.Soaking() {
				continue // a long run tries every template in every shell, other runs an eighth of them
			}
			for i := range values {
				value := payloads[(n+11*k+i)%len(payloads)]
				if i == 0 && (n+k)%16 == 0 {
					value = cmp.Or(in.value, value)
				}
				if a, ok := newAttempt(in.template, value, shell, len(list)); ok {
					list = append(list, a)
				}
			}
		}
		for part := range slices.Chunk(list, 1000) {
			for _, a := range c.try(t, part) {
				if !seen[a.template] {
					seen[a.template] = true
					t.Error(a)
				}
			}
		}
	}
	if len(seen) > 0 {
		t.Errorf("%d templates execute a value", len(seen))
	}
}
