package proc

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

func TestMain(m *testing.M) {
	// What runs in parallel waits most of the time.
	_ = flag.Set("test.parallel", strconv.Itoa(max(16, runtime.GOMAXPROCS(0))))
	os.Exit(m.Run())
}
