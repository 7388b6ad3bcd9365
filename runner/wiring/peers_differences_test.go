package wiring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// difference is where crew and a peer are meant to differ: what each is given
// and what each says, its stdout and, unless it is 0, its exit status.
type difference struct {
	why      string
	input    string
	peer     []string // the program and its arguments
	peerSays string
	crew     []string // nil: the peer's arguments
	crewSays string
}

const angles = "printf '<%s>' "

// differences are all that are known. The first words say who goes which way,
// the rest why crew goes its own.
var differences = []difference{
	// Records.
	{
		why:  "xargs cuts at blanks and minds quotes; crew takes lines, so that any file name but one with a newline comes through",
		peer: []string{"xargs", "-n1", "printf", "<%s>"}, input: "a b\n'c  d' \\e\n",
		peerSays: "<a><b><c  d><e>", crewSays: `<a b><'c  d' \e>`,
	},
	{
		why:  "xargs runs the command once without any record; crew never runs anything for nothing",
		peer: []string{"xargs", "echo", "x"}, peerSays: "x\n", crewSays: "",
	},
	{
		why:  "xargs skips empty lines; to crew, parallel and xargs -d an empty line is an empty argument",
		peer: []string{"xargs", "-n1", "printf", "<%s>"}, input: "a\n\nb\n", peerSays: "<a><b>", crewSays: "<a><><b>",
	},
	{
		why:  "xargs puts all that fits into one command; crew runs a command a record unless -n or -s says otherwise",
		peer: []string{"xargs", "echo"}, input: "a\nb\n", peerSays: "a b\n", crewSays: "a\nb\n",
	},
	{
		why:  "xargs -I takes leading blanks off; crew leaves bytes as they are",
		peer: []string{"xargs", "-I@", "printf", "<%s>", "@"}, input: "  a\n", peerSays: "<a>", crewSays: "<  a>",
	},
	{
		why:  "xargs does not mind -E beside -d or -0; crew stops at the record whatever ends it",
		peer: []string{"xargs", "-d,", "-n1", "-E", "b", "printf", "<%s>"}, input: "a,b,c", peerSays: "<a><b><c>", crewSays: "<a>",
	},
	{
		why:  "parallel -r skips blank lines too; to crew a blank is a byte like others",
		peer: []string{"parallel", "-r", angles}, input: " \na", peerSays: "<a>", crewSays: "< ><a>",
	},
	{
		why:  "parallel cuts values of ::: at newlines; crew takes them whole",
		peer: []string{"parallel", angles, ":::", "a\nb"}, peerSays: "<a><b>", crewSays: "<a\nb>",
	},
	{
		why:  "parallel writes a NUL in a line as \\0; crew does not pass on what nobody wrote, and fails that task alone",
		peer: []string{"parallel", angles}, input: "a\x00b\nc\n", peerSays: `<a\0b><c>`, crewSays: "<c> 123",
	},
	{
		why:  "parallel does not know \\xHH in -d; crew and xargs do",
		peer: []string{"parallel", "-d", `\x2c`, angles}, input: "a,b", peerSays: "<a,b>", crewSays: "<a><b>",
	},
	{
		why:  "parallel takes an empty group as one empty value; a product with an empty factor is empty",
		peer: []string{"parallel", angles + "{1} {2}", ":::", "a", ":::"}, peerSays: "<a><>", crewSays: "",
	},

	// Columns.
	{
		why:  "parallel cuts blanks off columns; crew leaves bytes as they are, and -C ' *, *' cuts them too",
		peer: []string{"parallel", "-C,", angles + "{1} {2}"}, input: " a , b ", peerSays: "<a><b>", crewSays: "< a >< b >",
	},
	{
		why:  "parallel leaves out the word of a column that is not there; crew starts no such task",
		peer: []string{"parallel", "-C,", angles + "{3} {1} {2}"}, input: "a,b", peerSays: "<a><b>", crewSays: " 123",
	},
	{
		why:  "parallel leaves out the word of a record that a last batch lacks; crew as above",
		peer: []string{"parallel", "-n2", angles + "{2} {1}", ":::", "a"}, peerSays: "<a>", crewSays: " 123",
	},
	{
		why:  "parallel cuts a CR off with the blanks; crew leaves the bytes of values as they are, and --csv knows CRLF",
		peer: []string{"parallel", "--header", ":", "-C,", angles + "{a} {b}"}, input: "a,b\r\n1,2\r\n", peerSays: "<1><2>",
		crew: []string{"--header", "-C,", angles + "{a} {b}"}, crewSays: "<1><2\r>",
	},

	// Placeholders.
	{
		why:  "parallel cuts from the first dot of a hidden file; to crew a leading dot begins no extension",
		peer: []string{"parallel", angles + "{.} {/.}", ":::", ".rc", "d/.rc", "..", "."}, peerSays: "<><><d/><><.><.><><>",
		crewSays: "<.rc><.rc><d/.rc><.rc><..><..><.><.>",
	},
	{
		why:  "parallel has no name for dir/; crew has that of basename and dirname",
		peer: []string{"parallel", angles + "{/} {/.} {//} {.}", ":::", "a/b.c/", "/"}, peerSays: "<><><a><a/b.c/><><></></>",
		crewSays: "<b.c><b><a><a/b></></></></>",
	},
	{
		why:  "parallel has the part before a newline in {/} too; to crew a newline is a byte of a name",
		peer: []string{"parallel", "-0", angles + "{/}"}, input: "a\nb/c\x00", peerSays: "<a\nc>", crewSays: "<c>",
	},
	{
		why:  "parallel quotes a value inside quotes again; to crew it stands for itself there",
		peer: []string{"parallel", `printf %s "<{}>"`, ":::", "a b $PARALLEL_SEQ"}, peerSays: "<'a b 1'>",
		crewSays: "<a b $PARALLEL_SEQ>",
	},
	{
		why:  "parallel hands several words to a shell; crew runs them as they are",
		peer: []string{"parallel", "printf", "%s.", "a  b", "$((1+1))", ":::", "c"}, peerSays: "a.b.2.c.", crewSays: "a  b.$((1+1)).c.",
	},
	{
		why:  "parallel -m puts the text of a word around a whole batch; crew -n repeats the word, as parallel -n and -X do",
		peer: []string{"parallel", "-m", "-j1", "-n2", angles + "x{}y", ":::", "a", "b"}, peerSays: "<xa><by>",
		crew: []string{"-n2", angles + "x{}y", ":::", "a", "b"}, crewSays: "<xay><xby>",
	},
	{
		why:  "parallel -X shares the last records in equal parts and a rest; the parts of crew differ by one record at most",
		peer: []string{"parallel", "-X", "-j4", "echo", ":::", "1", "2", "3", "4", "5", "6"}, peerSays: "1 2\n3 4\n5 6\n",
		crewSays: "1 2\n3 4\n5\n6\n",
	},

	// Results.
	{
		why:  "parallel lets a last line without newline run into the next tag; crew ends it",
		peer: []string{"parallel", "--tag", "printf x", ":::", "a", "b"}, peerSays: "a\txb\tx", crewSays: "a\tx\nb\tx\n",
	},
	{
		why:  "parallel --pipe gives a last record without newline as it is; crew gives each record with its end",
		peer: []string{"parallel", "--pipe", "-N1", "cat; echo ."}, input: "a\nb", peerSays: "a\n.\nb.\n",
		crew: []string{"--stdin", "cat; echo ."}, crewSays: "a\n.\nb\n.\n",
	},
	{
		why:  "parallel --pipe joins an empty record with the next; to crew it is one like others",
		peer: []string{"parallel", "--pipe", "-N1", "cat; echo ."}, input: "a\n\nb\n", peerSays: "a\n.\n\nb\n.\n",
		crew: []string{"--stdin", "cat; echo ."}, crewSays: "a\n.\n\n.\nb\n.\n",
	},
	{
		why:  "xargs -a leaves its stdin to the commands; a task of crew never reads crew's",
		peer: []string{"xargs", "-a", "one", "-n1", "sh", "-c", `cat; echo "$0"`}, input: "in\n", peerSays: "in\na\n", crewSays: "a\n",
	},
	{
		why:  "parallel makes a product of several -a; crew reads one after another, and :::: makes products",
		peer: []string{"parallel", "-a", "one", "-a", "two", "echo"}, peerSays: "a 1\na 2\n", crewSays: "a\n1\n2\n",
	},

	// Failures.
	{
		why:  "parallel counts the failed tasks; a count means nothing to CI, and crew says 123 as xargs does",
		peer: []string{"parallel", "exit 7 {}", ":::", "a", "b"}, peerSays: " 2", crewSays: " 123",
	},
	{
		why:  "parallel gives the share of failed tasks where --halt has one; crew as above",
		peer: []string{"parallel", "-j1", "--halt", "soon,fail=50%", "exit {}", ":::", "1", "1", "1", "0"}, peerSays: " 50", crewSays: " 123",
	},
	{
		why:  "parallel tries a command that does not exist for each record; crew stops at once with 127, as xargs does",
		peer: []string{"parallel", "crew-no-such-program", ":::", "a", "b"}, peerSays: " 2", crewSays: " 127",
	},
	{
		why:  "xargs stops at status 255; to crew that is a failure like others, and --halt is there to stop",
		peer: []string{"xargs", "-n1", "sh", "-c", `echo "$0"; exit "$0"`}, input: "255\n0\n", peerSays: "255\n 124", crewSays: "255\n0\n 123",
	},
	{
		why:  "xargs stops at a command killed by a signal; crew as above",
		peer: []string{"xargs", "-n1", "sh", "-c", `echo "$0"; kill -"$0" $$`}, input: "9\n0\n", peerSays: "9\n 125", crewSays: "9\n0\n 123",
	},
	{
		why:  "xargs stops at a record that is too long; crew fails that task alone",
		peer: []string{"xargs", "-s20", "-n1", "echo"}, input: "a\n" + strings.Repeat("b", 20) + "\nc\n", peerSays: "a\n 1", crewSays: "a\nc\n 123",
	},
	{
		why:  "xargs -I cannot put a record in the place of the command; with crew each task may run another, so a missing one fails alone",
		peer: []string{"xargs", "-I@", "@", "x"}, input: "crew-no-such-program\necho\n", peerSays: " 127", crewSays: "x\n 123",
	},
	{
		why:  "parallel counts the first attempt among --retries; crew counts those after it, as curl does",
		peer: []string{"parallel", "--retries", "3", "echo {} >> tries-parallel; cat tries-parallel; exit 1", ":::", "x"}, peerSays: "x\nx\nx\n 1",
		crew: []string{"--retries", "2", "--retry-delay", "0", "echo {} >> tries; cat tries; exit 1", ":::", "x"}, crewSays: "x\nx\nx\n 123",
	},
}

// compareDifferences holds the list against both sides, so that it stays true.
func compareDifferences(t *testing.T, b *bench) {
	c := *b
	c.dir = t.TempDir()
	for name, text := range map[string]string{"one": "a\n", "two": "1\n2\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
	}
	says := func(d difference, program string, args []string) string {
		got := c.run(t, d.input, program, args...)
		if got.status != 0 {
			return fmt.Sprint(got.stdout, " ", got.status)
		}
		return got.stdout
	}
	for _, d := range differences {
		program, args := d.peer[0], d.peer[1:]
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("no %s here to show that %s", program, d.why)
			continue
		}
		if program == "parallel" {
			require.Equal(t, d.peerSays, says(d, program, append([]string{"-k"}, args...)), d.why)
		} else {
			require.Equal(t, d.peerSays, says(d, program, args), d.why)
		}
		if d.crew != nil {
			args = d.crew
		}
		require.Equal(t, d.crewSays, says(d, "crew", append([]string{"-k"}, args...)), d.why)
	}
}
