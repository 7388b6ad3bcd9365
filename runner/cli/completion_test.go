package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComplete(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.Mkdir(home+"/.ssh", 0o700))
	require.NoError(t, os.WriteFile(home+"/.ssh/config", []byte("Host web we-* !web9\n\tUser ada\nhost=web\n"), 0o600))
	require.NoError(t, os.WriteFile(home+"/.ssh/known_hosts", []byte("web2,10.0.0.1 ssh-rsa AAAA\n|1|we= ssh-rsa AAAA\n[web3]:22 ssh-rsa AAAA\n"), 0o600))
	for line, want := range map[string]string{
		"--retr":                   "words --retries --retry-delay --retry-max-delay --retry-on --retry-failed",
		"--key x --retrie":         "words --retries",
		"--key --retr":             "words",
		"--output ":                "words group line raw none",
		"--output=li":              "words line",
		"--sched l":                "words least-busy",
		"--completion b":           "words bash",
		"-kj4 -a fi":               "files",
		"-kj ":                     "words",
		"--state=fi":               "dirs",
		"--retry-on exit:1,a":      "words exit:1,answer exit:1,any",
		"-S we":                    "words web web2",
		"-S a,8/we":                "words a,8/web a,8/web2",
		"-S ./ho":                  "files",
		"zzz":                      "programs",
		"-kj 4 zzz":                "programs",
		"--jobs 4 -- --retr":       "programs",
		"-j4 cat --retr":           "command 2",
		"--output=line cat a --re": "command 2",
		"ser":                      "programs serve",
		"-j4 ser":                  "programs",
		"serve --max-q":            "words --max-queued",
		"serve --keep":             "words --keep",
		"serve -j4 --output li":    "words line",
		"serve -j4 zzz":            "programs",
		"-j4 serve --max-q":        "command 2",
		"worker --lab":             "words --labels",
		"worker --keep-o":          "words",
		"ctl expl":                 "words explain",
		"ctl --":                   "words --help",
		"ctl log --":               "words --run --follow --json --help",
		"ctl log 3 --f":            "words --follow",
		"ctl drain --re":           "words --rest",
		"ctl add fi":               "files",
		"ctl pause t":              "words t-run",
		"ctl log --run t":          "words t-run",
		"ctl resize 2 t":           "words t-run",
		"ctl resize t":             "words",
		"ctl cancel 1 2":           "words 2",
		"ctl log --run r 2":        "words 2r",
		"engine se":                "words serve",
		"engine attach --jo":       "words --joblog",
		"engine serve --tls-":      "words --tls-cert --tls-key",
		"state ":                   "dirs",
		"help eng":                 "words engine",
		"help gua":                 "words guarantees",
		"help crew-s":              "words crew-serve.1 crew-state.1",
		"help top":                 "words topics",
		"--nosuch ":                "words",
	} {
		x := complete("bash", strings.Split(line, " "))
		var runs []Candidate
		if x.Runs {
			runs = []Candidate{{"t-run", "crew serve"}, {"other", ""}}
		}
		if x.Tasks {
			runs = []Candidate{{"1", ""}, {"2" + x.Run, ""}}
		}
		require.Equal(t, want, strings.Join(strings.Split(strings.TrimSpace(x.Text(runs)), "\n"), " "), line)
	}
	require.Equal(t, "words\nline\n", complete("bash", []string{"-k", "--output", "=", "l"}).Text(nil))
	require.Equal(t, "command 4\n", complete("bash", []string{"--output", "=", "line", "cat", "x"}).Text(nil))
	require.Equal(t, "words\n--output=line\n", complete("fish", []string{"--output=l"}).Text(nil))
	require.Equal(t, "words\n--tag:begin each line with the record\n", complete("zsh", []string{"--tag"}).Text(nil)[:44])
}
