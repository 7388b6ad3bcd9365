package journal

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// holdDir names a directory that this process is to open before it waits.
const holdDir = "CREW_TEST_HOLD_DIR"

// TestMain lets the test binary be a process that holds a journal.
func TestMain(m *testing.M) {
	syscall.Umask(0o022) // the directories must be nobody else's to write
	if dir := os.Getenv(holdDir); dir != "" {
		j, err := Open(configured(dir))
		if err != nil {
			fmt.Println(err)
		}
		ballast := make([]byte, 64<<20) // which takes the kernel a while to clear away
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
		fmt.Println("open")
		time.Sleep(time.Hour)
		j.Close()
	}
	os.Exit(m.Run())
}
