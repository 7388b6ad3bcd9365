package stories

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/exec/kernel"
)

// use is a shell command line that uses another tool, and the equivalent one that uses crew.
type use struct{ theirs, crew string }

// usesOfManPage returns the pairs of lines in the section of the man page, the one single line, and the
// tables below it.
func usesOfManPage(t *testing.T) (uses []use, alone string, tables [][]use) {
	t.Helper()
	_, section, found := strings.Cut(crewtest.ReadFile(t, "man/crew-migrate.7"), ".Sh COMING FROM OTHER TOOLS\n")
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

// TestComingFrom runs the command lines that the man page sets side by side; those of another tool only
// where it is installed. The file in testdata holds the outcome of each crew line ("crew:"), and that
// of the other tool if it differs ("theirs:"). GNU parallel starts slowly, so its lines need CREW_SOAK.
func TestComingFrom(t *testing.T) {
	t.Parallel()
	uses, _, _ := usesOfManPage(t)
	steps := readSteps(t, "coming")
	require.Len(t, steps, len(uses))
	for i, u := range uses {
		require.Equal(t, u.crew, steps[i].line, "a line without an expected outcome")
		crew := steps[i].notes["crew"]
		theirs := cmp.Or(steps[i].notes["theirs"], crew)
		t.Run(u.crew, func(t *testing.T) {
			t.Parallel()
			if kernel.Portable && strings.Contains(u.crew, "--load") {
				t.Skip("the portable form does not know the load of the machine")
			}
			require.Equal(t, crew, outcomeOf(t, u.crew))
			tool := regexp.MustCompile(`\b(xargs|parallel|snakemake|make|sem|flock|chronic)\b`).FindString(u.theirs)
			require.NotEmpty(t, tool)
			if (tool == "parallel" || tool == "sem") && !crewtest.Soaking() {
				return
			}
			if _, err := exec.LookPath(tool); err == nil {
				require.Equal(t, theirs, outcomeOf(t, u.theirs), u.theirs)
			}
		})
	}
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
		fmt.Fprintf(&crew, "%s\necho status $?\n", forRun(u.crew, name))
	}
	require.Equal(t, "1|status 0|status 0|2|status 0|status 0|installed|status 0|tested|status 2|",
		outcomeOf(t, "exec 3>&1 >served\n"+serve+"\nuntil crew ctl status "+name+" 2>&1; do sleep 0.05; done\nexec >&3\n"+crew.String()+"kill $!; wait; rm -r served queue"))
	crewtest.Needs(t, "tsp")
	require.Equal(t, "0|status 0|status 0|1|status 0|status 0|installed|status 0|tested|status 2|",
		outcomeOf(t, "export TS_SOCKET=$HOME/socket\n"+theirs.String()+"tsp -K"))
}

// forRun adds the name of a run to a crew ctl command line.
func forRun(line, name string) string {
	verb := strings.Fields(line)[2]
	option := " --run "
	if verb == "add" {
		option = " --to "
	}
	return strings.Replace(line, verb, verb+option+name, 1)
}

// TestComingFromQueues runs the other tables of the man page, each from top to bottom, on a queue of
// tasks 1 to 6, of which only the first runs. A command that waits for tasks sees them end.
func TestComingFromQueues(t *testing.T) {
	t.Parallel()
	_, _, tables := usesOfManPage(t)
	for i, table := range tables[1:] {
		require.NotEmpty(t, table)
		name := fmt.Sprint("queues-", os.Getpid(), "-", i)
		var lines strings.Builder
		for _, u := range table {
			line := forRun(u.crew, name)
			if strings.HasPrefix(u.crew, "crew ctl wait") {
				line = "> go; " + line
				fmt.Fprintf(&lines, "crew ctl cancel --run %s $(seq 7 12) > ended 2>&1\n", name)
			}
			fmt.Fprintf(&lines, "{ %s; } >> ended 2>&1 || echo status $? of %s\n", line, u.crew)
		}
		require.Equal(t, "", outcomeOf(t, fmt.Sprintf(`
crew serve --name %[1]s -j1 --idle-exit 1h >> ended 2>&1 &
crew ctl add --to %[1]s --key gpu 'until [ -e go ]; do sleep 0.01; done' > ended
for i in 2 3 4 5 6; do crew ctl add --to %[1]s --key gpu true > ended; done
%[2]screw ctl cancel --run %[1]s --all > ended; crew ctl drain %[1]s; wait; rm -f ended go
`, name, lines.String())))
	}
}

// outcomeOf runs a command line in a new sandbox with the files of coming.txtar. It returns the lines
// of its stdout (sorted, unless their order is fixed), its status, and the changed files, with | for a
// newline.
func outcomeOf(t *testing.T, line string) string {
	t.Helper()
	s := newSandbox(t, readFiles(t, "coming"))
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
	return s.outcome(out, status)
}
