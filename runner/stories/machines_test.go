package stories

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestThreeMachines runs the five commands of the cookbook that set up three machines, exactly as
// printed: this machine, and two with an sshd of their own.
func TestThreeMachines(t *testing.T) {
	crewtest.SoakOnly(t)
	t.Parallel()
	text := crewtest.ReadFile(t, "man/cookbook.md")
	block := regexp.MustCompile("(?s)```sh\n(crew engine serve .*?)```").FindStringSubmatch(text)
	require.NotNil(t, block)
	require.Equal(t, 5, strings.Count(block[1], "\n"), "five commands")

	s := newSandbox(t, map[string]string{
		"films/a.avi": "A\n", "films/b.avi": "B\n", "films/c.avi": "C\n", "films/d.avi": "D\n",
		"bin/ffmpeg": sh + "[ $1 = -i ] && { cat $2; hostname; echo $HOME; } > $3\n",
	}, engine)
	s.configure("web1", "web2")
	script := strings.NewReplacer("/films/", s.dir+"/films/", "--listen 0.0.0.0", "--listen 0.0.0.0:0").Replace(block[1])
	_, status := s.run("bash", script+`
status=$?
workers=$(jobs -p | tail -n +2)
for h in web1 web2; do crew engine revoke $h --dir hub; done
for w in $workers; do wait $w; done
kill %1
wait
exit $status`)
	require.Zero(t, status)
	for _, film := range []string{"a", "b", "c", "d"} {
		made := crewtest.ReadFile(t, filepath.Join(s.dir, "films", film+".mkv"))
		require.Contains(t, made, "the home of", "it was made on another machine")
	}
}

// configure sets up ssh and scp for hosts with these names.
func (s *sandbox) configure(hosts ...string) {
	s.t.Helper()
	config := ""
	for _, host := range hosts {
		d := crewtest.StartSSHD(s.t)
		own := filepath.Dir(d.Home)
		// scp fails if the login prints anything.
		crewtest.WriteFile(s.t, own+"/login", fmt.Sprintf("#!/bin/sh\nexport HOME='%s' PATH='%s'\ncd\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n", d.Home, s.path()), 0o755)
		text := crewtest.ReadFile(s.t, own+"/ssh_config")
		config += strings.Replace(regexp.MustCompile(`(?s)^.*Host web\* .*?\n`).ReplaceAllString(text, "Host "+host+"\n"), "\n\n", "\n", 1)
	}
	s.write("ssh_config", config)
	for _, tool := range []string{"ssh", "scp"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			s.t.Skipf("no openssh: %v", err)
		}
		if tool == "scp" {
			path += " -O" // the servers have no sftp
		}
		s.write("bin/"+tool, sh+"exec "+path+" -F "+s.dir+"/ssh_config \"$@\"\n")
	}
}

// path returns the PATH of the command lines.
func (s *sandbox) path() (path string) {
	for _, v := range s.env {
		if p, found := strings.CutPrefix(v, "PATH="); found {
			path = p
		}
	}
	return path
}
