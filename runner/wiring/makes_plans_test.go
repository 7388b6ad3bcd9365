package wiring

import (
	"fmt"
	"path/filepath"
	"strings"

	"crew/runner/crewtest"
)

// makeWork is the script of tasks that make files: of a version of the command, an input and
// the temporary names. A task also writes to stdout what it makes. One fails once, another
// always.
const makeWork = `version=$1 in=${2##*/}
shift 2
text() {
	echo begin $version $in
	case $version$in in
	2failing) exit 3 ;;
	?retried) mkdir tried$version 2> /dev/null && exit 75 ;;
	esac
	printf '%09999d\n' 0
	echo end $version $in
}
for to; do
	case $to in
	*.tree) mkdir $to $to/sub && text > $to/text && text > $to/sub/text ;;
	*) text > $to ;;
	esac
done
text
echo $in >> effects
`

// makeWorker is the script of a persistent worker that runs a version of it.
const makeWorker = `while read -r line; do
	id=${line#*'"id":'} in=${line#*'"args":["'} out=${line#*'"out":"'}
	sh work $1 ${in%%'"'*} ${out%%'"'*} > /dev/null
	echo "{\"id\":${id%%,*},\"exit\":$?}"
done
`

// made is what a version of the command makes of an input. The first one always succeeds.
func made(version, in string) string {
	return fmt.Sprintf("begin %s %s\n%09999d\nend %[1]s %[2]s\n", version, in, 0)
}

var makeInputs = []string{"in/plain", "in/retried", "in/failing", "in/other"}

// makePlan is a way to make files.
type makePlan struct {
	name   string
	args   []string
	outs   string // arguments of the command
	before bool   // another version of the command has made them
}

// makePlans returns all plans, or without CREW_SOAK two.
func makePlans() (plans []makePlan) {
	state := []string{"--state=state"}
	for _, p := range []makePlan{
		{name: "file", args: []string{"--makes=new/dir/{/}"}, outs: "{out}"},
		{name: "file with state", args: append(state, "--makes=out/{/}"), outs: "{out}"},
		{name: "stdout", args: []string{"--stdout-to=out/{/}", "-j4"}},
		{name: "stdout with state", args: append(state, "--stdout-to=out/{/}", "-j4", "--joblog=log")},
		{name: "several", args: []string{"--makes=out/{/}", "--makes=two/{/}", "--stdout-to={/}.3"}, outs: "{out} {out2}"},
		{name: "several with state", args: append(state, "--makes=out/{/}", "--makes=two/{/}.tree", "--stdout-to={/}.3"), outs: "{out} {out2}"},
		{name: "worker", args: []string{"--makes=new/dir/{/}", "-j2", "--worker-protocol=json"}},
		{name: "worker with state", args: append(state, "--makes=out/{/}", "--worker-protocol=json")},
		{name: "directory", args: append(state, "--makes=out/{/}.tree"), outs: "{out}"},
	} {
		plans = append(plans, p)
		p.name, p.before = p.name+" again", true
		plans = append(plans, p)
	}
	if !crewtest.Soaking() {
		plans = []makePlan{plans[3], plans[8]}
	}
	return plans
}

func (p *makePlan) state() bool { return p.args[0] == "--state=state" }

// targets returns the paths of the files that are made, and their inputs.
func (p *makePlan) targets() map[string]string {
	paths := map[string]string{}
	for _, arg := range p.args {
		option, template, _ := strings.Cut(arg, "=")
		if option != "--makes" && option != "--stdout-to" {
			continue
		}
		for _, in := range makeInputs {
			in = filepath.Base(in)
			path := strings.ReplaceAll(template, "{/}", in)
			if strings.HasSuffix(path, ".tree") {
				paths[path+"/sub/text"] = in
				path += "/text"
			}
			paths[path] = in
		}
	}
	return paths
}
