package cli

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLines reads testdata/lines.txt, which says what crew makes of command lines. Each is as
// typed to a shell, maybe with CREW_OPTS before it; what becomes of it stands below, indented:
//
//	refused TEXT   it is a mistake in usage
//	prints TEXT    the first line of what is printed in place of a run
//	split WORDS    its options, each in full, and then the other words
//	again LINE     how failed tasks run again
//	hosts LIST     the machines of -S, and the files that name some
//	PATH VALUE     a field of the Options, or what a method returns
func TestLines(t *testing.T) {
	text, err := os.ReadFile("testdata/lines.txt")
	require.NoError(t, err)
	var typed string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		want, indented := strings.CutPrefix(line, "\t")
		if !indented {
			typed = line
			continue
		}
		name, _, _ := strings.Cut(want, " ")
		if got := strings.TrimRight(name+" "+becomes(t, typed, name), " "); got != want {
			t.Errorf("%s\n\t%s\nbut it should be\n\t%s", typed, got, want)
		}
	}
}

// becomes returns what becomes of a command line, as TestLines has it.
func becomes(t *testing.T, typed, name string) string {
	t.Helper()
	args, err := shellWords(typed)
	require.NoError(t, err)
	env := func(name string) string { return "" }
	if opts, found := strings.CutPrefix(args[0], "CREW_OPTS="); found {
		env = func(string) string { return opts }
		args = args[1:]
	}
	if name == "split" {
		l, err := commands[0].split(args[1:])
		require.NoError(t, err)
		return fmt.Sprintf("%q %q", words(l.uses), l.operands)
	}
	o, err := Parse(args, env)
	if name == "refused" {
		require.ErrorAs(t, err, new(*UsageError), typed)
		return err.Error()
	}
	require.NoError(t, err, typed)
	switch name {
	case "prints":
		first, _, _ := strings.Cut(o.Print, "\n")
		return first
	case "again":
		return Rerun{Options: o}.Line("OPT", "VAL")
	case "hosts":
		hosts, files, err := Hosts(o.Engine.Hosts)
		return fmt.Sprint(hosts, files, err)
	}
	v := reflect.ValueOf(o)
	for part := range strings.SplitSeq(name, ".") {
		if m := v.MethodByName(part); m.IsValid() {
			v = m.Call(nil)[0]
		} else {
			v = reflect.Indirect(v).FieldByName(part)
		}
	}
	return show(v)
}

// show returns a value, without the fields that are zero.
func show(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return fmt.Sprintf("%q", v)
	case reflect.Struct:
		var fields []string
		for f, value := range v.Fields() {
			if !value.IsZero() {
				fields = append(fields, f.Name+":"+show(value))
			}
		}
		return "{" + strings.Join(fields, " ") + "}"
	}
	return fmt.Sprintf("%+v", v)
}
