package target

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"crew/runner/decide/task"
)

// holdTarget is the variable that names a target. The process begins to make the target and then waits.
const holdTarget = "CREW_TEST_HOLD_TARGET"

// TestMain lets the test binary act as another run.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	if path := os.Getenv(holdTarget); path != "" {
		a := task.Attempt{Task: making(path), Number: 1}
		if res := New(Config{}).Begin(a); res != nil {
			panic(res.Err)
		}
		temp := a.Task.Makes.TempName(path)
		if err := os.MkdirAll(temp+"/sub", 0o777); err != nil {
			panic(err)
		}
		if err := os.WriteFile(temp+"/sub/file", nil, 0o666); err != nil {
			panic(err)
		}
		fmt.Println("begun")
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}
