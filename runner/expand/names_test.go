package expand

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func compiled(t testing.TB, s string, cfg Config) *Text {
	t.Helper()
	text, err := NewText(s, cfg)
	require.NoError(t, err)
	return text
}

func TestMisspelt(t *testing.T) {
	names := []string{"name", "login", "full name", ""}
	for _, c := range []struct {
		text  string
		names []string
		want  string
	}{
		{"{nmae} {login}", names, `no column is called "nmae": did you mean {name}?`},
		{"{Name/.}", names, `no column is called "Name": did you mean {name/.}?`},
		{"{full nmae}", names, `no column is called "full nmae": did you mean {full name}?`},
		{"${n}{print}", names, `no column is called "print": the columns are name, login, full name; { print } is text`},
		{"{{logn}}", names, `no column is called "logn": did you mean {login}?`},
		{"{..}", nil, `there is no placeholder {..}: in one quoted command, write f={} and then "${f%.*.*}"`},
		{"{2/...}", nil, `there is no placeholder {2/...}: in one quoted command, write f={2/} and then "${f%.*.*.*}"`},
		{"{+/}", names, `there is no placeholder {+/}: write {//} for the directory`},
		{"{1+.}", nil, `there is no placeholder {1+.}: in one quoted command, write f={1} and then "${f##*.}" for the extension`},
		{"{+..}", nil, `there is no placeholder {+..}: in one quoted command, write f={} and then "${f#*.}" for the extensions`},
		{"{%.tar.gz}", nil, `there is no placeholder {%.tar.gz}: in one quoted command, write f={} and then "${f%.tar.gz}"`},
		{"{%suf}", nil, `there is no placeholder {%suf}: in one quoted command, write f={} and then "${f%suf}"`},
		{"a{2%_1.fq}", nil, `there is no placeholder {2%_1.fq}: in one quoted command, write f={2} and then "${f%_1.fq}"`},
		{"{= s/x/y/ =}", nil, `there is no placeholder {= s/x/y/ =}: in one quoted command, write f={} and then change "$f" there, as with sed`},
		{"{1=uc=}", nil, `there is no placeholder {1=uc=}: in one quoted command, write f={1} and then change "$f" there, as with sed`},
	} {
		cfg := Config{Names: c.names}
		_, err := NewText(c.text, cfg)
		require.EqualError(t, err, c.want, c.text)
		cfg.Words = []string{"x", c.text}
		_, err = New(cfg)
		require.EqualError(t, err, c.want, c.text)
		cfg.Words = []string{"x; y " + c.text}
		_, err = New(cfg)
		require.EqualError(t, err, c.want, c.text)
	}
	for _, text := range []string{
		"{name} {login.} {full name} {1} {9}", "${nmae}", `\{nmae}`, "{ nmae }", "{print $1}", "{a,b}", "{a..b}", "{1..3}",
		"{", "{nmae", "{}", "{%s}", "{%d}", "{%ld}", "{%02d}", "{%.2f}", "{%Y-%m}", "{% if %}", "{==}", "{=}", "x{3,}", "{+}",
	} {
		compiled(t, text, Config{Names: names})
	}
	compiled(t, "{nmae} {print}", Config{})
	compiled(t, "{nmae}", Config{Names: []string{}}) // of an empty input
	compiled(t, "{..}", Config{Replace: "{..}"})
	compiled(t, "{..}", Config{Names: []string{".."}})
}
