package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func words(uses []use) []string {
	var ws []string
	for _, u := range uses {
		ws = append(ws, u.word())
	}
	return ws
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		args    string // split at blanks
		options string
		rest    string
		ended   bool
	}{
		{args: ""},
		{args: "ls -l", rest: "ls -l"},
		{args: "-j4 ls -l", options: "--jobs=4", rest: "ls -l"},
		{args: "-j 4 ls", options: "--jobs=4", rest: "ls"},
		{args: "-P4 ls", options: "--jobs=4", rest: "ls"},
		{args: "-j50% ls", options: "--jobs=50%", rest: "ls"},
		{args: "-j+0 ls", options: "--jobs=+0", rest: "ls"},
		{args: "-j-1 ls", options: "--jobs=-1", rest: "ls"},
		{args: "-j -1 ls", options: "--jobs=-1", rest: "ls"},
		{args: "--jobs -1 ls", options: "--jobs=-1", rest: "ls"},
		{args: "--jobs=-1 ls", options: "--jobs=-1", rest: "ls"},
		{args: "-kj4 ls", options: "--keep-order --jobs=4", rest: "ls"},
		{args: "-0n1P8 ls", options: "--null --max-args=1 --jobs=8", rest: "ls"},
		{args: "-n2j50%k ls", options: "--max-args=2 --jobs=50% --keep-order", rest: "ls"},
		{args: "-j-1kP +2 ls", options: "--jobs=-1 --keep-order --jobs=+2", rest: "ls"},
		{args: "-j4x -jprocs ls", options: "--jobs=4x --jobs=procs", rest: "ls"},
		{args: "-0kn1 -P8 ls", options: "--null --keep-order --max-args=1 --jobs=8", rest: "ls"},
		{args: "-kj 4 ls -k", options: "--keep-order --jobs=4", rest: "ls -k"},
		{args: "-u ls", options: "--output=raw", rest: "ls"},
		{args: "--line-buffer --bar ls", options: "--output=line --progress=always", rest: "ls"},
		{args: "-- ls", rest: "ls", ended: true},
		{args: "-k -- -x -- y", options: "--keep-order", rest: "-x -- y", ended: true},
		{args: "ls -- x", rest: "ls -- x"},
		{args: "- x", rest: "- x"},
		{args: "-a - cat", options: "--arg-file=-", rest: "cat"},
		{args: "-d -- cat", options: "--delimiter=--", rest: "cat"},
		{args: "-k ::: a b", options: "--keep-order", rest: "::: a b"},
		{args: "--key=a=b ls", options: "--key=a=b", rest: "ls"},
		{args: "--eof= ls", options: "--eof=", rest: "ls"},
		{args: "help", rest: "help"},
		{args: "h -k", rest: "h -k"},
		{args: "version", rest: "version"},
	} {
		t.Run(c.args, func(t *testing.T) {
			l, err := commands[0].split(strings.Fields(c.args))
			require.NoError(t, err)
			require.Equal(t, strings.Fields(c.options), append([]string{}, words(l.uses)...))
			require.Equal(t, strings.Fields(c.rest), append([]string{}, l.rest...))
			require.Equal(t, c.ended, l.ended)
		})
	}
}

func TestSplitKeepsBytes(t *testing.T) {
	l, err := commands[0].split([]string{"-d", "a b", "--tag-string=\xff\n", "", "x y"})
	require.NoError(t, err)
	require.Equal(t, []string{"--delimiter=a b", "--tag-string=\xff\n"}, words(l.uses))
	require.Equal(t, []string{"", "x y"}, l.rest)
}

func TestOperands(t *testing.T) {
	command, groups, err := splitGroups(strings.Fields("echo -x ::: a b :::: f :::+ c ::::+ g h :::"))
	require.NoError(t, err)
	require.Equal(t, []string{"echo", "-x"}, command)
	require.Equal(t, []Group{
		{Words: []string{"a", "b"}},
		{Words: []string{"f"}, Files: true},
		{Words: []string{"c"}, Linked: true},
		{Words: []string{"g", "h"}, Files: true, Linked: true},
		{},
	}, groups)
}

func TestShellWords(t *testing.T) {
	for in, want := range map[string][]string{
		"":                           nil,
		"  \t\n ":                    nil,
		"-k -j4":                     {"-k", "-j4"},
		`--key '{1} x' -d "a\"b"`:    {"--key", "{1} x", "-d", `a"b`},
		`-d '\t' -d \\n`:             {"-d", `\t`, "-d", `\n`},
		`"\t" "\$x" ''`:              {`\t`, "$x", ""},
		`a'b c'"d"\ e`:               {"ab cd e"},
		"--tag-string=\"\xff é\" -k": {"--tag-string=\xff é", "-k"},
	} {
		got, err := shellWords(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

func FuzzArgs(f *testing.F) {
	for _, s := range []string{"", "-kj4\x00ls\x00-l", "-j\x00-1\x00--\x00x", "--output=raw\x00-u\x00:::\x00a", "-0n1P8", "--retires\x00x", "\n\x00&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		l, err := commands[0].split(args)
		if err != nil {
			require.ErrorAs(t, err, new(*UsageError))
			return
		}
		again, err := commands[0].split(append(append(words(l.uses), "--"), l.rest...))
		require.NoError(t, err)
		require.True(t, again.ended)
		require.Equal(t, words(l.uses), words(again.uses))
		require.Equal(t, append([]string{}, l.rest...), append([]string{}, again.rest...))

		command, groups, err := splitGroups(l.rest)
		if err == nil {
			n := len(command) + len(groups)
			for _, g := range groups {
				n += len(g.Words)
			}
			require.Equal(t, len(l.rest), n)
		}
		if len(command) > 0 {
			env := func(string) string { return "" }
			if _, err = Parse(append([]string{"crew"}, args...), env); err != nil {
				require.ErrorAs(t, err, new(*UsageError))
			}
		}
	})
}

func FuzzShellWords(f *testing.F) {
	f.Add(`a 'b c' "d\"e" \f`)
	f.Fuzz(func(t *testing.T, s string) {
		ws, err := shellWords(s)
		if err != nil {
			return
		}
		// What was split, quoted again, splits the same.
		var quoted []string
		for _, w := range ws {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := shellWords(strings.Join(quoted, " "))
		require.NoError(t, err)
		require.Equal(t, ws, again)
	})
}
