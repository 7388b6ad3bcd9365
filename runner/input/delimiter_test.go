package input

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDelimiter(t *testing.T) {
	for in, want := range map[string]string{
		`,`: ",", `\n`: "\n", `\t`: "\t", `\r`: "\r", `\0`: "\x00", `\\`: `\`, `\x2c`: ",", `\x00`: "\x00",
		`\012`: "\n", `\0012`: "\x012", `\7`: "\a", `a\nb`: "a\nb", `::`: "::", "é": "é", `\377`: "\xff", `\08`: "\x008",
		`\`: `\`, `a\`: `a\`, `\x9`: "\t", `\x1fx`: "\x1fx", `\r\n`: "\r\n", `\0x`: "\x00x", "\xff": "\xff",
	} {
		got, err := ParseDelimiter(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{``, `\q`, `\x`, `\xzz`, `\400`, `\9`, `a\"`} {
		_, err := ParseDelimiter(in)
		require.Error(t, err, in)
	}
}

func FuzzDelimiter(f *testing.F) {
	f.Add(`\n`)
	f.Add(`\x0g\`)
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := ParseDelimiter(s); err == nil {
			require.NotEmpty(t, got)
		}
		hex := ""
		for i := range len(s) {
			hex += fmt.Sprintf(`\x%02x`, s[i])
		}
		if got, err := ParseDelimiter(hex); hex != "" {
			require.NoError(t, err)
			require.Equal(t, s, got)
		}
	})
}
