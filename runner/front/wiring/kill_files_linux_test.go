package wiring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// filesWork is the script of tasks that make files. Its arguments are the version of the command, the input and the
// temporary names. A task also writes the content to stdout. One task fails once, another one always.
const filesWork = `version=$1 in=${2##*/}
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

// filesWorker is the script of a persistent worker that does the same.
const filesWorker = `while read -r line; do
	id=${line#*'"id":'} in=${line#*'"args":["'} out=${line#*'"out":"'}
	sh work $1 ${in%%'"'*} ${out%%'"'*} > /dev/null
	echo "{\"id\":${id%%,*},\"exit\":$?}"
done
`

// made returns the content that a version of the command makes from an input. The first version always succeeds.
func made(version, in string) string {
	return fmt.Sprintf("begin %s %s\n%09999d\nend %[1]s %[2]s\n", version, in, 0)
}

var filesInputs = []string{"in/plain", "in/retried", "in/failing", "in/other"}

// killedFiles runs tasks that make files. At any moment each target is complete or absent, and an old target stays
// until it is replaced. At the end there are the files of the last command, no temporary files, and only tasks
// that ran during a kill have run again. With a run before, the first version of the command has made all
// targets.
type killedFiles struct{ *scene }

func (k *killedFiles) prepare() {
	k.write("work", filesWork)
	k.write("worker", filesWorker)
	for _, in := range filesInputs {
		k.write(in, "")
	}
	if k.Before != nil {
		k.version("1", 0, &disturbance{})
		k.all("1")
		require.NoError(k.t, os.Remove(filepath.Join(k.dir, "effects")))
	}
	// Targets are older than the inputs, unless the journal has to show that they are not up to date.
	require.NoError(k.t, filepath.WalkDir(k.dir, func(path string, _ fs.DirEntry, err error) error {
		year := 2010
		if strings.HasPrefix(path, k.dir+"/in/") {
			year = map[bool]int{true: 2005, false: 2015}[k.has("--state")]
		}
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		return errors.Join(err, os.Chtimes(path, at, at))
	}))
}

// version runs a version of the command.
func (k *killedFiles) version(version string, status int, d *disturbance) {
	args := append([]string{"-q", "-j1", "--retries=2", "--retry-on=exit:75", "--retry-delay=1ms"}, k.Args...)
	if k.has("--worker-protocol=json") {
		args = append(args, "--worker=sh worker "+version)
	} else {
		outs := []string{"", "{out}", "{out} {out2}"}[strings.Count(strings.Join(k.Args, " "), "--makes")]
		args = append(args, "sh work "+version+" {} "+outs)
	}
	k.crew(d, status, nil, crew(append(append(args, ":::"), filesInputs...)...))
}

func (k *killedFiles) run(d *disturbance) { k.version("2", 123, d) }

func (k *killedFiles) holds() { k.all("1", "2") }

func (k *killedFiles) check() {
	k.all("2")
	targets := k.targets()
	for path := range k.files("/") {
		if k.rough && k.cuts > 1 && strings.Contains(path, ".crew-") {
			continue // left by a kill in a run that remade a target that had survived a power cut, unlike the other one
		}
		require.NotContains(k.t, path, ".crew-")
		if dir := filepath.Dir(path); dir != "/in" && dir != "/state" && path != "/log" {
			require.Contains(k.t, targets, path)
		}
	}
	if began := k.read("effects"); !k.rough {
		require.LessOrEqual(k.t, strings.Count(began, "\n"), len(filesInputs)-1+4*k.cuts, began)
	}
}

// all checks that each target is the complete file of one of the versions.
func (k *killedFiles) all(versions ...string) {
	k.t.Helper()
	for path, in := range k.targets() {
		var whole []string
		for _, v := range versions {
			whole = append(whole, made(v, in))
		}
		if in == "failing" {
			whole = []string{made("1", in)}
		}
		if k.Before == nil && (in == "failing" || len(versions) > 1) {
			whole = append(whole, "") // the target need not exist yet
		}
		require.Contains(k.t, whole, k.read(path), path)
	}
}

// targets returns the paths of the targets, with their inputs.
func (k *killedFiles) targets() map[string]string {
	paths := map[string]string{}
	for _, arg := range k.Args {
		option, template, _ := strings.Cut(arg, "=")
		if option != "--makes" && option != "--stdout-to" {
			continue
		}
		for _, in := range filesInputs {
			in = filepath.Base(in)
			path := "/" + strings.ReplaceAll(template, "{/}", in)
			if strings.HasSuffix(path, ".tree") {
				paths[path+"/sub/text"] = in
				path += "/text"
			}
			paths[path] = in
		}
	}
	return paths
}
