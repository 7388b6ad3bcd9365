package stories

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// readme is where the command lines of the README run: files, and programs that check
// what they are given.
var readme = map[string]string{
	"a.log": "fine\n", "b.log": "fine\n", "a.jpg": "A\n", "b.jpg": "B\n", "hosts": "web1\nweb2\n", "commands.txt": "echo one\necho two | tr a-z A-Z\n",
	"in/x/c.png": "C\n", "urls": "http://h/one\nhttp://h/flaky\n", "staff.csv": "name,login\nAda Lovelace,ada\n\"O'Hara, Bob\",bob\n",
	"parameters": "1\n2\n3\n", "events.json": `{"user":"ada","n":1}` + "\n" + `{"user":"bob","n":2}` + "\n",
	"films/a.avi": "A\n", "films/b.avi": "B\n", "Makefile": "test:; @echo tested\ninstall:; @> installed\n",
	"jobs": strings.Repeat("web job\n", 17) + strings.Repeat("db job\n", 3),

	"backup":      sh + "echo backed up $1\n",
	"deploy":      sh + "echo deployed $*\n",
	"simulate":    sh + "[ $1 != 2 ] || [ -e mended ] || exit 1\necho seed $1\n",
	"work":        sh + "echo $CREW_SEQ works\nuntil [ -e go ] || [ -e go.$CREW_SEQ ]; do sleep 0.05; done\n",
	"bin/convert": sh + "[ $2,$3 = -resize,50% ] && cp $1 $4\n",
	"bin/curl":    sh + "t=tries.${4##*/}\n[ $1,$2 = -fsS,-o ] && echo try >> $t && cp $t $3\n[ $t != tries.flaky ] || [ $(wc -l < $t) = 3 ]\n",
	"bin/cwebp":   sh + "[ $1,$3 = -quiet,-o ] && cp $2 $4\n",
	"bin/ffmpeg":  sh + "[ $1 = -i ] && cp $2 $3\n",
	"bin/kubectl": sh + `[ "$1" = logs ] && echo log of "$@" || echo '{"items":[{"metadata":{"namespace":"a","name":"x"}},{"metadata":{"namespace":"b","name":"y z"}}]}'` + "\n",
	"bin/ping":    sh + "echo PING $2\necho $1 $2\n",
	"bin/scp":     sh + "[ $1,$3 = -q,${2%.json}: ] && mkdir -p ~/on.${3%:} && cp -p $2 ~/on.${3%:}\n",
	"bin/ssh":     sh + "while :; do case $1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac; done\n[ \"$2\" != uptime ] || { [ $1 = web1 ]; exit; }\nmkdir -p ~/on.$1 && HOME=$HOME/on.$1 && cd && shift && exec /bin/sh -c \"$*\"\n",
	"bin/useradd": sh + `printf '<%s>' "$@"; echo` + "\n",
	"bin/go": sh + `case "$CREW_SOAK $*" in
*' list ./...') printf 'm/%s\n' a b c d ;;
*' test m/'*) echo "ok $2" ;;
*' vet ./...') echo "vet $GOOS $GOARCH" ;;
' run . '*) shift 2; exec crew "$@" ;;
' install ./...') mkdir -p "$GOPATH/bin" && cp "$BUILT"/* "$GOPATH/bin" ;;
*) exec "$GO" "$@" ;;
esac
`,
}

// step is a command line of the README or, if line is empty, one of the test's own.
type step struct {
	line  string
	as    string // what runs, with LINE for the line; "" for just that
	want  string // what becomes of it: see sandbox.becomes; a regular expression if it begins with ^
	until string // a condition for which to wait; the line goes on in the background
}

// cannot are the command lines of the README that do not run.
var cannot = []string{
	"go test ./...", // which runs this test
}

// steps are all others, in the order of the README.
var steps = []step{
	{line: "find . -name '*.log' -print0 | crew -0 -j4 gzip -9 {}", want: "-a.log -b.log a.log.gz b.log.gz"},
	{line: "crew 'convert {} -resize 50% {.}.png' ::: *.jpg", want: "a.png=A| b.png=B|"},
	{line: "crew -k --tag 'ping -c1 {} | tail -1' :::: hosts", want: "web1\t-c1 web1|web2\t-c1 web2|"},
	{line: "crew echo {1} {2} ::: a b ::: 1 2 3", want: "a 1|a 2|a 3|b 1|b 2|b 3|"},
	{line: "crew < commands.txt", want: "TWO|one|"},
	{as: "for f in good other; do echo $f | gzip > $f.gz; done; echo bad > bad.gz", want: "bad.gz good.gz other.gz"},
	{line: "crew gunzip -t ::: good.gz bad.gz other.gz", as: "LINE 2>&1", want: "as printed"},

	{line: `seq 8 | go run . -j4 'echo "task {} on worker {%}"'`, want: `^(task \d on worker [1-4]\|){8}$`},
	{line: "CGO_ENABLED=0 go install ./..."},
	{line: `for n in 1 7; do mkdir -p "$(go env GOPATH)/share/man/man$n" && cp man/*.$n "$_"; done`},
	{as: "command -v crew crew-engine crew-top crew-web", want: "~/go/bin/crew|~/go/bin/crew-engine|~/go/bin/crew-top|~/go/bin/crew-web|"},
	{as: "unset MANPATH; man -w crew crew-state; man -w 7 crew", want: "~/go/share/man/man1/crew-state.1|~/go/share/man/man1/crew.1|~/go/share/man/man7/crew.7|"},
	{line: `eval "$(crew --completion bash)"`, as: "LINE; complete -p crew", want: "^complete .* crew\\|$"},

	{
		line: "find in -name '*.png' -printf '%P\\0' |\n    crew -0 -j50% 'mkdir -p out/{//} && cwebp -quiet in/{} -o out/{.}.webp'",
		want: "out/x/c.webp=C|",
	},
	{
		line: "crew -j8 --retries 3 --timeout 30 --makes '{/}' curl -fsS -o {out} {} < urls",
		want: "flaky=try|try|try| one=try| tries.flaky=try|try|try| tries.one=try|",
	},
	{line: "go list ./... | crew --fail-fast -k go test {}", want: "ok m/a|ok m/b|ok m/c|ok m/d|"},
	{line: "crew --csv --header 'useradd -c {name} {login}' < staff.csv", want: "<-c><Ada Lovelace><ada>|<-c><O'Hara, Bob><bob>|"},
	{
		line: "kubectl get pods -A -o json | jq -c '.items[].metadata' |\n    crew --input json 'kubectl logs -n {namespace} {name} > {name}.log'",
		want: "x.log=log of logs -n a x| y z.log=log of logs -n b y z|",
	},
	{line: `crew --json ssh {} uptime :::: hosts | jq -r 'select(.outcome != "ok") | .args[0]'`, want: "web2|"},
	{
		line: "crew -k --tag-string '{1}/{2}' --shell bash \\\n    'set -o pipefail; GOOS={1} GOARCH={2} go vet ./... |& head -3' ::: linux darwin ::: amd64 arm64",
		want: "darwin/amd64\tvet darwin amd64|darwin/arm64\tvet darwin arm64|linux/amd64\tvet linux amd64|linux/arm64\tvet linux arm64|",
	},
	{
		line: "crew -j16 -C ' ' --key {1} --per-key 2 --rate 50/s ./deploy {1} {2} < jobs",
		want: `^(deployed db job\|){3}(deployed web job\|){17}$`,
	},
	{as: "seq -f 'ERROR %g' 2 > huge.log; echo fine >> huge.log", want: "huge.log=ERROR 1|ERROR 2|fine|"},
	{line: "crew -k --pipe --block 1G sed -n /ERROR/p < huge.log > errors", want: "errors=ERROR 1|ERROR 2|"},
	{line: "crew --state run/ -k --replay ./simulate {} < parameters > results", want: "status 123 results=seed 1|seed 3|"},
	{as: "> mended", want: "mended="},
	{line: "crew --state run/ -k --replay --retry-failed ./simulate {} < parameters > results", want: "results=seed 1|seed 2|seed 3|"},
	{line: "crew report run/ > run.html", as: "LINE; grep -c '^<!DOCTYPE html>' run.html; rm run.html", want: "1|"},
	{as: "for day in monday tuesday; do crew -k --joblog $day.log echo ::: a b; done", want: "^a.*monday.log=.*tuesday.log="},
	{
		line: "crew report monday.log tuesday.log > trends.html",
		as:   "LINE; grep -c '^<!DOCTYPE html>' trends.html; rm trends.html", want: "1|",
	},

	{as: "crew --name night -j18 -C ' ' --key {1} ./work {1} {2} < jobs > ~/night", until: "crew ctl status night | grep '18 running'"},
	// The user may have other runs, so these need a name.
	{line: "crew ctl status", as: "LINE --run night", want: "^.*18 running.*"},
	{line: "crew ctl top", as: "while echo q; do sleep 0.05; done | script -qec 'LINE --run night' /dev/null", want: "^.*night.*"},
	{
		line: "crew web", as: "LINE 2> url & until grep -q http: url; do sleep 0.01; done; kill $!; wait; grep -c http://127.0.0.1: url; rm url",
		want: "1|",
	},
	{
		line: "crew ctl log -f 17", as: "LINE --run night > log & until [ -s log ]; do sleep 0.01; done; > go.17; wait; cat log",
		want: "^17 works\\|.*go.17=$",
	},
	{line: "crew ctl pause night"},
	{line: "crew ctl resize +2", as: "LINE --run night"},
	{as: "crew ctl cancel --run night --key db && crew ctl drain --rest --run night", want: "^3 tasks cancelled"},
	{as: "> go; while crew ctl status night > status; do sleep 0.05; done; rm status", want: "go="},

	{line: "crew serve --name ci -j2 --state ci.state &", until: "crew ctl status ci"},
	{line: "crew ctl add --to ci --wait make test", want: "tested|"},
	{line: "crew ctl add --to ci --after 1 make install", as: "LINE && until [ -e installed ]; do sleep 0.01; done", want: "2|installed="},
	{line: "crew -k --worker 'jq --unbuffered -c .user' < events.json", want: `"ada"|"bob"|`},
	{
		line: "crew -S 8/web1,me@web2,: --transfer --return {.}.webp --cleanup cwebp -quiet {} -o {.}.webp ::: *.png",
		want: "a.webp=A| b.webp=B|",
	},
	{line: "crew engine serve --dir hub --listen 0.0.0.0 &", until: "[ -s hub/admin.json ]"},
	{line: "for h in web1 web2; do crew engine invite $h --dir hub > $h.json; done", as: "LINE; stat -c %a web?.json", want: `^600\|600\|web1.json=.* web2.json=.*`},
	{line: "for h in web1 web2; do scp -q $h.json $h: ; done"},
	{
		line:  "for h in web1 web2; do ssh -n $h crew worker --engine $h.json -j8 ffmpeg -i {} {.}.mkv & done",
		as:    "LINE; wait",
		until: "[ $(crew engine status --engine hub/admin.json | grep -c ready) = 2 ]",
	},
	{
		line: "crew --engine hub/admin.json -k --state encoded.state ffmpeg -i {} {.}.mkv ::: /films/*.avi",
		want: "films/a.mkv=A| films/b.mkv=B|",
	},
	{
		line: "crew --lock backup.lock --jitter 10m --deadline 6:00 --quiet-success -a hosts ./backup {}",
		want: "backup.lock=",
	},
	{line: "go list ./... | crew --shard 2/4 --junit report.xml --retries 2 --timeout 5m go test {}", want: `^(ok m/[a-d]\|)+report.xml$`},
}

// readmeLines returns the command lines of the README: those of its blocks of shell, and
// what its crontab starts. printed is what the README shows below a command that has a $
// before it.
func readmeLines(t *testing.T) (lines []string, printed string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		switch block := m[2]; m[1] {
		case "crontab":
			lines = append(lines, strings.TrimSpace(strings.SplitN(block, " ", 6)[5]))
		case "console":
			line, rest, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
			lines, printed = append(lines, line), rest
		case "sh":
			block = regexp.MustCompile(`(?m)(^|  +)# .*$`).ReplaceAllString(block, "")
			// A line that begins with a blank goes on with the command above it.
			for _, line := range regexp.MustCompile(`(?m)^\S.*(\n +.*)*$`).FindAllString(block, -1) {
				lines = append(lines, strings.TrimRight(line, " "))
			}
		default:
			require.Fail(t, "what is a block of "+m[1]+"?")
		}
	}
	return lines, printed
}

// TestReadme runs the README from top to bottom. CREW_SOAK has go do what it says there,
// in place of taking programs that are built faster.
func TestReadme(t *testing.T) {
	t.Parallel()
	lines, printed := readmeLines(t)
	var known []string
	for _, p := range steps {
		if p.line != "" {
			known = append(known, p.line)
		}
	}
	runs := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(cannot, line) })
	require.Equal(t, known, runs, "the command lines of the README, and what becomes of them here")
	require.Len(t, lines, len(runs)+len(cannot))

	s := newSandbox(t, readme, engine, "crew/runner/control/crew-top", "crew/runner/web/crew-web")
	s.goes()
	s.files = s.look()
	repository, err := os.Getwd()
	require.NoError(t, err)
	rewrite := strings.NewReplacer("/films/", s.dir+"/films/", "--listen 0.0.0.0", "--listen 0.0.0.0:0", "--dir hub", "--dir ~/hub", "hub/admin.json", "~/hub/admin.json", "--jitter 10m", "--jitter 10ms")
	times := regexp.MustCompile(`[0-9.]+m?s\b`)
	for _, p := range steps {
		script := p.line
		if p.as != "" {
			script = strings.ReplaceAll(p.as, "LINE", p.line)
		}
		if s.lacks(script) {
			continue
		}
		script = rewrite.Replace(script)
		if p.until != "" {
			s.background(strings.TrimSuffix(script, "&"), rewrite.Replace(p.until))
			continue
		}
		if regexp.MustCompile(`\bgo (run|install)|^for n in 1 7`).MatchString(p.line) {
			script = "cd " + repository + " && " + script
		}
		out, status := s.run("bash", script)
		if p.want == "as printed" {
			require.Equal(t, times.ReplaceAllString(printed, "TIME"), times.ReplaceAllString(strings.TrimLeft(out, "\n"), "TIME"))
			continue
		}
		got := s.becomes(strings.ReplaceAll(sorted(out), s.home, "~"), status)
		if strings.HasPrefix(p.want, "^") {
			require.Regexp(t, p.want, got, script)
		} else {
			require.Equal(t, p.want, got, script)
		}
	}
}

// goes sets up where go installs crew: without CREW_SOAK, what is built already.
func (s *sandbox) goes() {
	tool, err := exec.LookPath("go")
	require.NoError(s.t, err)
	caches, err := exec.Command(tool, "env", "GOMODCACHE", "GOCACHE").Output()
	require.NoError(s.t, err)
	modules, objects, _ := strings.Cut(strings.TrimSpace(string(caches)), "\n")
	path := filepath.Join(s.home, "go")
	s.env = append(s.env, "GO="+tool, "GOBIN=", "GOPATH="+path, "GOMODCACHE="+modules, "GOCACHE="+objects, "BUILT="+s.programs, "MANPATH=",
		"PATH="+filepath.Join(s.dir, "bin")+":"+filepath.Join(path, "bin")+":"+s.programs+":"+os.Getenv("PATH"))
}

// lacks reports whether a script needs a program that is not installed.
func (s *sandbox) lacks(script string) bool {
	for _, tool := range []string{"jq", "man", "make", "script"} {
		if !regexp.MustCompile(`(^|[ |;'])(\./)?` + regexp.QuoteMeta(tool) + ` `).MatchString(script) {
			continue
		}
		if _, err := exec.LookPath(tool); err != nil {
			s.t.Logf("%v: not run: %s", err, script)
			return true
		}
	}
	return false
}

// background starts a script, which is told to end after the test, and waits for a
// condition.
func (s *sandbox) background(script, until string) {
	cmd := s.command("bash", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
		s.t.Logf("%s\n%s", script, out.String())
	})
	_, status := s.run("bash", "for n in $(seq 2400); do { "+until+"; } && exit; sleep 0.05; done; exit 1")
	require.Zero(s.t, status, "%s: %s", script, until)
}

// The README shows uses of the man page, without the program that feeds the command and
// its last words.
func TestReadmeComingFrom(t *testing.T) {
	uses, _, tables := usesOfManPage(t)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Coming from other tools\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.ReplaceAll(section, `\|`, "|")
	rows := regexp.MustCompile("(?m)^\\| `(.*)` \\| `(.*?)`").FindAllStringSubmatch(section, -1)
	require.Len(t, rows, 8)
	for _, row := range rows {
		require.True(t, slices.ContainsFunc(slices.Concat(uses, slices.Concat(tables...)), func(u use) bool {
			return strings.Contains(u.theirs, row[1]) && strings.Contains(u.crew, row[2])
		}), "%q is not in the man page", row[1:])
	}
}
