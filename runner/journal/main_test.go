package journal

import (
	"os"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o022) // the directories must be nobody else's to write
	os.Exit(m.Run())
}
