package ssh

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const asStdio = "CREW_TEST_STDIO"

// answerOnce answers one line from standard input.
func answerOnce() {
	conn, err := Stdio()
	if err != nil {
		panic(err)
	}
	fmt.Println("stray output")
	fmt.Scanln() // stray input: there is none
	line, _ := bufio.NewReader(conn).ReadString('\n')
	fmt.Fprint(conn, "got ", line)
	_ = conn.Close()
}

// Other input and output of the process stays out of the connection.
func TestStdio(t *testing.T) {
	t.Parallel()
	var notices strings.Builder
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asStdio+"=1")
	cmd.Stdin, cmd.Stderr = strings.NewReader("it\n"), &notices
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "got it\n", string(out))
	require.Equal(t, "stray output\n", notices.String())
}
