package task

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMessagesForWorkers(t *testing.T) {
	for p, want := range map[Protocol]string{
		LineProtocol: "\"args\":[]\n", NULProtocol: "\"args\":[]\x00", JSONProtocol: `{"id":7,"args":[],"attempt":2,"units":["gpu:0"]}` + "\n", FilterProtocol: `"args":[]`,
	} {
		require.Equal(t, want, string(p.End(append(p.Begin(nil, 7), `"args":[]`...), 2, []Units{{"gpu", []string{"0"}}}, nil)))
	}
}

func TestTheRecordOfAWorkerShows(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		task        Task
		line, short string // within 30 bytes
	}{
		{Task{Argv: []string{"echo", "a b"}}, "echo 'a b'", "echo 'a b'"},
		{Task{Argv: []string{"jq"}, Protocol: LineProtocol, Stdin: []byte("a b")}, "jq <<< 'a b'", "jq <<< 'a b'"},
		{Task{Argv: []string{"jq"}, Protocol: NULProtocol}, "jq <<< ''", "jq <<< ''"},
		{Task{Argv: []string{"jq", long}, Protocol: LineProtocol, Stdin: []byte("abc")}, "jq " + long + " <<< abc", "jq xxxxxxxxxxxxxxxx… <<< abc"},
		{Task{Argv: []string{"jq"}, Protocol: LineProtocol, Stdin: []byte(long)}, "jq <<< " + long, "jq <<< " + long[:23] + "…"},
		{Task{Argv: []string{"/bin/sh", "-c", "a | b"}, Shell: true, Protocol: JSONProtocol, Records: [][]string{{"x", "y"}}}, "a | b <<< 'x y'", "a | b <<< 'x y'"},
		{Task{Argv: []string{"jq"}, Protocol: JSONProtocol, Object: "{}", Records: [][]string{{"{}"}}}, "jq <<< '{}'", "jq <<< '{}'"},
		{Task{Argv: []string{"wc"}, Protocol: FilterProtocol}, "wc", "wc"},
	} {
		require.Equal(t, c.line, c.task.CommandLine(c.task.Argv))
		require.Equal(t, c.short, c.task.ShortCommandLine(c.task.Argv, 30))
	}
}

// A redirection of standard output is shown as a shell has it.
func TestTheFileOfStdoutShows(t *testing.T) {
	script := func(s string) Task { return Task{Argv: []string{"/bin/sh", "-c", s}, Shell: true} }
	for _, c := range []struct {
		task        Task
		line, short string // within 30 bytes
	}{
		{Task{Argv: []string{"jq", ".", "a b"}}, "jq . 'a b' > 'o 1'", "jq . 'a b' > 'o 1'"},
		{Task{Argv: []string{"jq", strings.Repeat("x", 100)}}, "jq " + strings.Repeat("x", 100) + " > 'o 1'", "jq xxxxxxxxxxxxxxxx… > 'o 1'"},
		{Task{Argv: []string{"jq"}, Protocol: LineProtocol, Stdin: []byte("a")}, "jq <<< a > 'o 1'", "jq <<< a > 'o 1'"},
		{script("jq . <a | sort"), "jq . <a | sort > 'o 1'", "jq . <a | sort > 'o 1'"},
		{script("a; b"), "/bin/sh -c 'a; b' > 'o 1'", "/bin/sh -c 'a; b' > 'o 1'"},
		{script("a || b"), "/bin/sh -c 'a || b' > 'o 1'", "/bin/sh -c 'a || b' > 'o 1'"},
		{script("a 2>&1"), "/bin/sh -c 'a 2>&1' > 'o 1'", "/bin/sh -c 'a 2>&1' > 'o 1'"},
		{script("a\x1b"), "a\x1b > 'o 1'", "a\x1b > 'o 1'"},
	} {
		c.task.Makes = &Making{Targets: []Target{{Path: "first"}, {Path: "o 1"}}}
		require.NotContains(t, c.task.CommandLine(c.task.Argv), "o 1")
		c.task.Makes.Stdout = true
		require.Equal(t, c.line, c.task.CommandLine(c.task.Argv))
		require.Equal(t, c.short, c.task.ShortCommandLine(c.task.Argv, 30))
		require.Contains(t, c.task.VisibleLine(c.task.Argv), " > 'o 1'")
	}
}

func TestVerdictSaysWhy(t *testing.T) {
	at := time.Unix(1, 0)
	why := errors.New("it died")
	for want, r := range map[string]Result{
		"exit 3 after 2s":                     {Outcome: Exit, Code: 3, Err: why},
		"exit 137 after 2s, it died":          {Outcome: Exit, Code: 137, Err: why},
		"killed by SIGKILL after 2s, it died": {Outcome: Signal, Signal: 9, Err: why},
		"killed by SIGTERM after 2s":          {Outcome: Signal, Signal: 15, Err: why},
		"ended for want of memory after 2s":   {Outcome: Memory, Err: why},
		"bad answer after 2s, it died":        {Outcome: BadAnswer, Err: why},
		"not started: it died":                {Outcome: StartFailed, Err: why},
		"lost with its worker after 2s":       {Outcome: Lost, Err: why},
		"cancelled after 2s":                  {Outcome: Cancelled, Err: why},
		"made no output after 2s: it died":    {Outcome: NoOutput, Err: why},
		"skipped (up to date)":                {Outcome: Skipped},
	} {
		r.Start, r.End = at, at.Add(2*time.Second)
		require.Equal(t, want, r.Verdict())
	}
}
