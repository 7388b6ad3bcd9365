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

	"crew/runner/task"
)

// cage is a place to run scripts that no one has read. They run in an empty
// directory, find only a few programs, and have little time and room. A test run
// by root runs them as nobody.
type cage struct {
	dir, bin string
	shells   []string // what --shell is given
	user     *syscall.Credential
	ended    int // attempts that ended the process that ran them
}

func newCage(t testing.TB) *cage {
	t.Helper()
	c := &cage{dir: t.TempDir(), bin: t.TempDir(), shells: installedShells()}
	for _, name := range []string{"cat", "env", "sh", "bash", "zsh", "mksh", "ksh93", "yash", "busybox", "xargs", "find", "timeout", "nice", "flock", "printf", "seq", "head"} {
		link(t, c.bin, name)
	}
	for name, script := range map[string]string{
		"p": "printf '%s\\0' \"$@\"\n",
		// Programs that give an option's argument to a shell.
		"su": `while [ $# -gt 0 ]; do
	case $1 in
	-c) exec sh -c "$2" ;;
	-c*) exec sh -c "${1#-c}" ;;
	--c*=*) case --command in "${1%%=*}"*) exec sh -c "${1#*=}" ;; esac ;;
	--c*) case --command in "$1"*) exec sh -c "$2" ;; esac ;;
	esac
	shift
done
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(c.bin, name), []byte("#!/bin/sh\n"+script), 0o755))
	}
	for _, name := range []string{"runuser", "script"} {
		require.NoError(t, os.Symlink("su", filepath.Join(c.bin, name)))
	}
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

// unsafeText matches what no script may hold that runs in the cage: names outside
// of it, and builtins that reach other processes.
var (
	unsafeText  = regexp.MustCompile(`/|\.\.|~[^ \t\n"'}{;)]|pwned|\x00`)
	unsafeNames = regexp.MustCompile(`kill|suspend|limit|disown|umask|chdir|cd|fc|hist|zmod|zcomp|autoload|exec.*[<>]`)
	letters     = regexp.MustCompile(`[^a-z<>]`)
)

func caged(script string) bool {
	return !unsafeText.MatchString(script) && !unsafeNames.MatchString(letters.ReplaceAllString(script, ""))
}

// attempt is a script made from a template and a value whose text creates the
// file if any shell ever evaluates it.
type attempt struct {
	template, value, shell, file string
	argv                         []string
}

func (a attempt) String() string {
	return fmt.Sprintf("%s executes a value:\n template %q\n value    %q\n script   %q", a.shell, a.template, a.value, a.argv[len(a.argv)-1])
}

// newAttempt compiles a template for a shell and fills it in with a value, in which
// "pwned" stands for the file. By n, the template is a script for the shell or for
// a shell that the command names, takes one record or two, and is given the record
// at its end. ok is false if the template or the value is refused.
func newAttempt(template, value, shell string, n int) (a attempt, ok bool) {
	cfg := Config{Words: []string{template}, Shell: shell, Append: n%2 == 0, Batch: n%5 == 0}
	switch {
	case n%7 == 0:
		cfg.Words = append(strings.Fields(shell), "-c", template)
		cfg.Shell = ""
	case shell == "/bin/sh":
		cfg.Shell = ""
	}
	tm, err := New(cfg)
	if err != nil {
		return a, false
	}
	a = attempt{template: template, shell: shell, file: "pwned" + strconv.Itoa(n)}
	a.value = strings.ReplaceAll(value, "pwned", a.file)
	v := Values{Records: [][]string{{a.value, a.value}}, Seq: 7}
	if cfg.Batch {
		v.Records = append(v.Records, []string{"x", a.value})
	}
	a.argv, ok = fillIn(tm, v)
	prefix := append(strings.Fields(shell), "-c")
	return a, ok && len(a.argv) == len(prefix)+1 && slices.Equal(a.argv[:len(prefix)], prefix)
}

// fillIn returns a command for v. ok is false if a value is not the number that it
// must be.
func fillIn(tm *Template, v Values) (argv []string, ok bool) {
	var tk task.Task
	tm.Fill(&tk, v)
	return tk.Argv, tk.Err == nil
}

const driver = `while [ $# -gt 0 ]; do
	(oracle=$1; shift $#; eval "$oracle") </dev/null >/dev/null 2>&1 3>&-
	printf '%s\n' "$#" >&3
	shift
done`

const limits = `ulimit -t 2; ulimit -f 1000; [ "$1" != nobody ] || ulimit -p 500; shift; exec "$@"`

// run runs a command in the cage and returns the files that it has left there.
// Whatever it writes to descriptor 3 goes to out.
func (c *cage) run(t testing.TB, argv []string, out io.Writer) (left map[string]bool, inTime bool) {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	require.NoError(t, err)
	user := "self"
	if c.user != nil {
		user = "nobody"
	}
	for _, name := range []string{"a", "b"} { // for patterns to match
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte("p a\n"), 0o644))
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", limits, "sh", user, path}, argv[1:]...)...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + c.bin, "HOME=" + c.dir, "LC_ALL=C", "s=eval", "h=sh", "o=-i", "k=3", "TMPDIR=" + c.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.user}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{w}
	require.NoError(t, cmd.Start())
	w.Close()
	done := make(chan struct{})
	go func() {
		io.Copy(out, r)
		close(done)
	}()
	timer := time.AfterFunc(6*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	cmd.Wait()
	inTime = timer.Stop()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	r.SetReadDeadline(time.Now().Add(time.Second))
	<-done
	r.Close()
	left = map[string]bool{}
	files, err := os.ReadDir(c.dir)
	require.NoError(t, err)
	for _, f := range files {
		left[f.Name()] = true
		os.RemoveAll(filepath.Join(c.dir, f.Name()))
	}
	return left, inTime
}

// try runs the attempts, all for one shell, in one process and returns those in
// which the value was executed. Each of them ran once more alone, as crew would
// run it.
func (c *cage) try(t testing.TB, list []attempt) (bad []attempt) {
	t.Helper()
	for len(list) > 0 {
		shell := list[0].argv[:len(list[0].argv)-1]
		argv := append(append([]string{}, shell...), driver, "sh")
		for _, a := range list {
			argv = append(argv, a.argv[len(a.argv)-1])
		}
		var out bytes.Buffer
		left, _ := c.run(t, argv, &out)
		for _, a := range list {
			if !left[a.file] {
				continue
			}
			alone, _ := c.run(t, a.argv, io.Discard)
			if !alone[a.file] { // what runs in the background may have no time
				alone, _ = c.run(t, append(slices.Clone(shell), driver, "sh", a.argv[len(a.argv)-1]), io.Discard)
			}
			if alone[a.file] {
				bad = append(bad, a)
			} else {
				t.Logf("not alone: %v", a)
			}
		}
		ran := bytes.Count(out.Bytes(), []byte("\n"))
		if ran >= len(list) {
			break
		}
		c.ended++
		stuck := list[ran].template
		list = slices.DeleteFunc(list[ran:], func(a attempt) bool { return a.template == stuck })
	}
	return bad
}

// payloads are values that create the file pwned if a shell reads them as syntax.
var payloads = []string{
	"$(>pwned)", "`>pwned`", ";>pwned;", "\n>pwned\n", "';>pwned;'", `";>pwned;"`, "$(>pwned)\"$(>pwned)'$(>pwned)", "a[$(>pwned)]", "k[$(>pwned)]=1", "k[`>pwned`]",
	"&>pwned&", "|>pwned|", ")\n>pwned\n", "));>pwned;((", "}\n>pwned\n", ";;esac\n>pwned\n", "E\n>pwned\n", "\nE\n>pwned\n", "\n\tE\n>pwned\n", "x\nE\n)\n>pwned\n", "E\r\n>pwned\n", "\nE\r\n>pwned\n",
	"${k:+$(>pwned)}", "${(e):-$(>pwned)}", "${(e)k:-$(>pwned)}", "*(e:'>pwned':)", "*(N^e:'>pwned':)", "$((a[$(>pwned)]))", "$[a[$(>pwned)]]", "a[(e)$(>pwned)]", "0+a[$(>pwned)]",
	`\$(>pwned)`, "\\`>pwned\\`", `\';>pwned;\'`, `\";>pwned;\"`, `\`, `\$(>pwned)\`, "\\\n;>pwned;", "$'\\';>pwned;'", "-va[$(>pwned)]", "-c>pwned", "--command=>pwned", "-e>pwned",
	">pwned", "eval >pwned", "a=$(>pwned)", "k=a[$(>pwned)]", "<(>pwned)", "=(>pwned)", "\r\n>pwned\n", "\r;>pwned;", "x;>pwned #", "\x01';>pwned;'", "\x7f$(>pwned)", "\xff';>pwned;'", "\x81\";>pwned;\"", "\xc3$(>pwned)",
	"%$(>pwned)", "~$(>pwned)", "!>pwned", "{a,$(>pwned)}", "@(x|$(>pwned))", "${ >pwned;}", "${|>pwned;}", "$(>pwned)\x00"[:9], "-", "--", "7", "k", "x[$(>pwned)]+=1", "\"'$(>pwned)", "'\"`>pwned`", "1 a[$(>pwned)]",
	"[$(>pwned)]=", "a]+k[$(>pwned)", "a:$(>pwned)", "/$(>pwned)", "${k/3/$(>pwned)}", "$(>pwned)#", "(e)$(>pwned)", "'$(>pwned)'", `"$(>pwned)"`, "''\";>pwned;\"''", "+a[$(>pwned)]", "x -o k[$(>pwned)]",
}

// readAttacks returns the templates of testdata/attacks.txt.
func readAttacks(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(cmp.Or(os.Getenv("ATTACK"), "testdata/attacks.txt"))
	require.NoError(t, err)
	var list []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		line = strings.NewReplacer(`\\`, `\\`, `\"`, `\"`, `"`, `\"`).Replace(line)
		template, err := strconv.Unquote(`"` + line + `"`)
		require.NoError(t, err, line)
		if caged(template) {
			list = append(list, template)
		}
	}
	return list
}

// cagedIdioms returns the common idioms with names of programs that the cage has.
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

// TestAttacks tries templates that have been wrong, or could be, and the common
// idioms.
func TestAttacks(t *testing.T) {
	c := newCage(t)
	templates := append(readAttacks(t), cagedIdioms(t)...)
	values := 1
	if long() {
		values = 12
	}
	for k, shell := range c.shells {
		var list []attempt
		for n, template := range templates {
			if (n+k)%16 != 0 && !long() {
				continue // a long run tries every template in every shell, others a sixteenth of them
			}
			for i := range values {
				if a, ok := newAttempt(template, payloads[(n+11*k+i)%len(payloads)], shell, len(list)); ok {
					list = append(list, a)
				}
			}
		}
		for part := range slices.Chunk(list, 1000) {
			for _, a := range c.try(t, part) {
				t.Error(a)
			}
		}
	}
}
