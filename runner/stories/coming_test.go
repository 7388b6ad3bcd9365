package stories

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/kernel"
)

// use is something that people do with another tool, and how they do it with crew: a
// command line of the shell each.
type use struct{ theirs, crew string }

// usesOfManPage returns the pairs of lines in the section of the man page, the one line
// that stands alone, and the tables below it.
func usesOfManPage(t *testing.T) (uses []use, alone string, tables [][]use) {
	t.Helper()
	text, err := os.ReadFile("man/crew.7")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), ".Sh COMING FROM OTHER TOOLS\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n.Sh ")
	section = strings.NewReplacer(`\&`, "", `\(dq`, `"`, `\e`, `\`).Replace(section)
	for _, m := range regexp.MustCompile(`(?m)(?:^\.Dl .*\n)+`).FindAllString(section, -1) {
		lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll("\n"+m, "\n.Dl ", "\n"), "\n"), "\n")[1:]
		switch len(lines) {
		case 1:
			require.Empty(t, alone)
			alone = lines[0]
		default:
			require.Len(t, lines, 2)
			uses = append(uses, use{lines[0], lines[1]})
		}
	}
	for _, m := range regexp.MustCompile(`(?ms)^\.Bd .*?^\.Ed$`).FindAllString(section, -1) {
		var table []use
		for _, row := range regexp.MustCompile(`(?m)^(\S.*?)  +(crew .*)$`).FindAllStringSubmatch(m, -1) {
			table = append(table, use{row[1], row[2]})
		}
		tables = append(tables, table)
	}
	return uses, alone, tables
}

// place holds what the command lines find in their directory: files, and programs that
// stand in for those that need a network or are not installed everywhere.
var place = map[string]string{
	"a.log": "ERROR a\nfine\n", "b.log": "fine\n", "big.log": "1\nERROR 2\n3\nERROR 4\n",
	"a.csv": "2\n1\n", "b c.csv": "4\n3\n", "list.csv": "to,subject\nada@a,hello there\nbob@b,it's $me\n",
	"pairs": "a.log x\nb.log  y\n", "urls": "http://h/one\nhttp://h/flaky\n", "hosts": "web1\nweb2\n", "seeds": "1\n2\n3\n",
	"a.jpg": "A\n", "b.jpg": "B\n", "a.wav": "A\n", "b.wav": "B\n", "a.md": "A\n", "b.md": "B\n",
	"commands": "echo one\n\n# no command\necho two | tr a-z A-Z\n",
	"Makefile": "all:\n\t@echo built\n%.html: %.md\n\tpandoc -o $@ $<\ncheck-%:\n\t./check $*\n" +
		"install:\n\t@echo installed\ntest:\n\t@echo tested; exit 1\n" +
		".PHONY: lib app\nlib app:\n\t$(MAKE) -C $@\n",
	"lib/Makefile": "all:; echo lib\n", "app/Makefile": "all: ; echo app\n", "t/1.t": "echo ok 1\n", "t/2.t": "echo ok 2\n",

	"check":       sh + "> on.$1\n[ $1 != a ] || until [ -e on.b ] && [ -e on.c ]; do sleep 0.01; done\necho checked $1\n[ $1 != a ] || exit 3\n",
	"simulate":    sh + "echo ran >> runs.$1\n[ $1 != 2 ] || [ -e failed ] || { > failed; exit 1; }\necho seed $1\n",
	"nightly":     sh + "echo well\n",
	"migrate":     sh + "echo migrated\nexit 4\n",
	"sync":        sh + "echo synced\n[ -n \"$NESTED\" ] || NESTED=1 sh -c \"$LINE\"\n", // while it has the lock
	"train":       sh + "mkdir on.$CUDA_VISIBLE_DEVICES && [ $CUDA_VISIBLE_DEVICES -lt 2 ] && rmdir on.$CUDA_VISIBLE_DEVICES && echo trained $1\n",
	"bin/convert": sh + "cp $1 $2\n",
	"bin/curl":    sh + "f=${2##*/}\necho try >> $f\n[ $f != flaky ] || [ $(wc -l < $f) = 3 ]\n",
	"bin/lame":    sh + "cp $1 ${1%.wav}.mp3\n",
	"bin/mail":    sh + "printf '<%s>' \"$@\"; echo\n",
	"bin/pandoc":  sh + "cp $3 $2\n",
	"bin/ssh":     sh + "echo $1 runs $2\n",
}

// comings has what becomes of each use of the man page, by crew's line: what run
// returns. theirs is empty if the other tool does the same.
var comings = map[string]struct{ crew, theirs string }{
	"find . -name '*.log' -print0 | crew -0 -j8 gzip": {
		crew: "-a.log -b.log -big.log a.log.gz b.log.gz big.log.gz",
	},
	"find . -name '*.log' -print0 | crew -0 -n100 -j8 grep -l ERROR": {crew: "./a.log|./big.log|"},
	"ls *.csv | crew -j8 'sort {} > {}.sorted'": {
		crew:   "a.csv.sorted=1|2| b c.csv.sorted=3|4| list.csv.sorted=ada@a,hello there|bob@b,it's $me|to,subject|",
		theirs: "status 123 a.csv.sorted=1|2| b= list.csv.sorted=ada@a,hello there|bob@b,it's $me|to,subject|",
	},
	"crew -C ' +' -j8 cp < pairs":       {crew: "x=ERROR a|fine| y=fine|"},
	"crew -a urls -j8 curl -O":          {crew: "status 123 flaky=try| one=try|"},
	"crew convert {} {.}.png ::: *.jpg": {crew: "a.png=A| b.png=B|"},
	"crew -j4 < commands":               {crew: "TWO|one|"},
	"crew -j20 -k --tag ssh {} uptime :::: hosts": {
		crew: "web1\tweb1 runs uptime|web2\tweb2 runs uptime|",
	},
	"crew --csv --header mail -s {subject} {to} :::: list.csv": {
		crew: "<-s><hello there><ada@a>|<-s><it's $me><bob@b>|",
	},
	"crew -k --pipe --block 10M grep ERROR < big.log": {crew: "ERROR 2|ERROR 4|"},
	"crew --retries 2 --timeout 60 --halt now,fail=1 curl -O :::: urls": {
		crew: "flaky=try|try|try| one=try|",
	},
	"crew --state run --retry-failed ./simulate :::: seeds": {
		crew: "seed 1|seed 2|seed 3|failed= runs.1=ran| runs.2=ran|ran| runs.3=ran|",
	},
	"crew --load 80% --memfree 1G --retry-on memory ./simulate :::: seeds": {
		crew:   "seed 1|seed 3|status 123 failed= runs.1=ran| runs.2=ran| runs.3=ran|",
		theirs: "seed 1|seed 3|status 1 failed= runs.1=ran| runs.2=ran| runs.3=ran|",
	},
	"crew -j4 --makes '{.}.html' 'pandoc -o {out} {}' ::: a.md b.md":    {crew: "a.html=A| b.html=B|"},
	"crew -j8 --state run --makes '{.}.png' convert {} {out} ::: *.jpg": {crew: "a.png=A| b.png=B|"},
	"crew -j4 --halt soon,fail=1 ./check ::: a b c": {
		crew:   "checked a|checked b|checked c|status 3 on.a= on.b= on.c=",
		theirs: "checked a|checked b|checked c|status 2 on.a= on.b= on.c=",
	},
	"crew --jobserver -j4 make -s -C {} ::: lib app":                               {crew: "app|lib|"},
	"test:; +ls t/*.t | crew sh":                                                   {crew: "ok 1|ok 2|"},
	"crew -j4 lame ::: *.wav":                                                      {crew: "a.mp3=A| b.mp3=B|"},
	"crew --cap gpu=2 --needs gpu 'CUDA_VISIBLE_DEVICES={gpu} ./train {}' ::: a b": {crew: "trained a|trained b|"},
	"crew --fail-fast --lock db.lock --lock-wait 1d ::: ./migrate": {
		crew: "migrated|status 4 db.lock=", theirs: "migrated|status 4",
	},
	"crew --fail-fast --quiet-success ::: ./nightly": {},
	"crew --fail-fast --lock sync.lock ::: ./sync": {
		crew: "synced|status 75 sync.lock=", theirs: "synced|status 1 sync.lock=",
	},
}

// TestComingFrom runs what the man page sets side by side, theirs where it is
// installed. GNU parallel starts slowly, so its lines need CREW_SOAK.
func TestComingFrom(t *testing.T) {
	t.Parallel()
	uses, _, _ := usesOfManPage(t)
	for _, u := range uses {
		want, known := comings[u.crew]
		require.True(t, known, "what becomes of %q?", u.crew)
		if want.theirs == "" {
			want.theirs = want.crew
		}
		t.Run(u.crew, func(t *testing.T) {
			t.Parallel()
			if kernel.Portable && strings.Contains(u.crew, "--load") {
				t.Skip("the portable form does not know the load of the machine")
			}
			require.Equal(t, want.crew, comeOf(t, u.crew))
			tool := regexp.MustCompile(`\b(xargs|parallel|snakemake|make|sem|flock|chronic)\b`).FindString(u.theirs)
			require.NotEmpty(t, tool)
			if (tool == "parallel" || tool == "sem") && !crewtest.Soaking() {
				return
			}
			if _, err := exec.LookPath(tool); err == nil {
				require.Equal(t, want.theirs, comeOf(t, u.theirs), u.theirs)
			}
		})
	}
	require.Len(t, comings, len(uses))
}

// TestComingFromTsp runs the first table of the man page from top to bottom.
func TestComingFromTsp(t *testing.T) {
	t.Parallel()
	_, serve, tables := usesOfManPage(t)
	require.NotEmpty(t, tables)
	require.Greater(t, len(tables[0]), 3)
	// The user may have other runs.
	name := fmt.Sprint("coming-", os.Getpid())
	serve = strings.Replace(serve, "crew serve", "crew serve --name "+name, 1)
	var theirs, crew strings.Builder
	for _, u := range tables[0] {
		fmt.Fprintf(&theirs, "%s\necho status $?\n", u.theirs)
		fmt.Fprintf(&crew, "%s\necho status $?\n", ofRun(u.crew, name))
	}
	require.Equal(t, "1|status 0|status 0|2|status 0|status 0|installed|status 0|tested|status 2|",
		comeOf(t, "exec 3>&1 >served\n"+serve+"\nuntil crew ctl status "+name+" 2>&1; do sleep 0.05; done\nexec >&3\n"+crew.String()+"kill $!; wait; rm -r served queue"))
	if _, err := exec.LookPath("tsp"); err != nil {
		t.Skip("no tsp here: it comes with the packages of .ci/run")
	}
	require.Equal(t, "0|status 0|status 0|1|status 0|status 0|installed|status 0|tested|status 2|",
		comeOf(t, "export TS_SOCKET=$HOME/socket\n"+theirs.String()+"tsp -K"))
}

// ofRun returns a crew ctl with the name of its run.
func ofRun(line, name string) string {
	verb := strings.Fields(line)[2]
	option := " --run "
	if verb == "add" {
		option = " --to "
	}
	return strings.Replace(line, verb, verb+option+name, 1)
}

// TestComingFromQueues runs the other tables of the man page, each from top to bottom, in a
// queue of tasks 1 to 6 of which all but the first wait. Whoever waits for some sees them end.
func TestComingFromQueues(t *testing.T) {
	t.Parallel()
	_, _, tables := usesOfManPage(t)
	for i, table := range tables[1:] {
		require.NotEmpty(t, table)
		name := fmt.Sprint("queues-", os.Getpid(), "-", i)
		var lines strings.Builder
		for _, u := range table {
			line := ofRun(u.crew, name)
			if strings.HasPrefix(u.crew, "crew ctl wait") {
				line = "> go; " + line
				fmt.Fprintf(&lines, "crew ctl cancel --run %s $(seq 7 12) > ended 2>&1\n", name)
			}
			fmt.Fprintf(&lines, "{ %s; } >> ended 2>&1 || echo status $? of %s\n", line, u.crew)
		}
		require.Equal(t, "", comeOf(t, fmt.Sprintf(`
crew serve --name %[1]s -j1 --idle-exit 1h >> ended 2>&1 &
crew ctl add --to %[1]s --key gpu 'until [ -e go ]; do sleep 0.01; done' > ended
for i in 2 3 4 5 6; do crew ctl add --to %[1]s --key gpu true > ended; done
%[2]screw ctl cancel --run %[1]s --all > ended; crew ctl drain %[1]s; wait; rm -f ended go
`, name, lines.String())))
	}
}

// comeOf runs a command line in a sandbox of its own with the files of place. It
// returns the lines of its stdout, in order of their text unless that is fixed, its
// status, and what has become of the files, with | for a newline.
func comeOf(t *testing.T, line string) string {
	t.Helper()
	s := newSandbox(t, place)
	script := line
	if strings.HasPrefix(line, "test:; ") { // a rule of a makefile
		script = fmt.Sprintf("echo '%s' | make -s -j4 -f -", line)
	}
	out, status := s.run("/bin/sh", script, "LINE="+line)
	if strings.Contains(line, "resume") || strings.Contains(line, "--state run") {
		var more string
		more, status = s.run("/bin/sh", script)
		out += more
	}
	if !strings.Contains(line, "ctl") && !strings.Contains(line, "tsp") {
		out = sorted(out)
	}
	return s.becomes(out, status)
}
