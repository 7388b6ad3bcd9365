package cli

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestLines reads testdata/lines.txt, which holds command lines and their meanings. A command line is in the form
// for a shell, optionally with CREW_OPTS before it. Its meaning follows on indented lines:
//
//	refused TEXT   the error for a mistake in the usage
//	prints TEXT    the first line of the text that is printed instead of a run
//	split WORDS    the options, each in full, and then the other words
//	again LINE     the command line that reruns failed tasks
//	hosts LIST     the machines of -S, and the files that name machines
//	PATH VALUE     a field of the Options, or the result of a method
func TestLines(t *testing.T) {
	text := crewtest.ReadFile(t, "testdata/lines.txt")
	var typed string
	for line := range strings.Lines(text) {
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

// becomes returns one line of the meaning of a command line; see TestLines.
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

// show formats a value without its zero fields.
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
