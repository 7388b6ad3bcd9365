//go:build !amd64 && !arm64

package proc

// fledgling is a guardian that is about to be started.
type fledgling struct{ null, table int }

func newFledgling(null, table int) *fledgling { return &fledgling{null, table} }

// start starts it.
func (f *fledgling) start() (pid int, err error) { return forkGuardian(f.null, f.table) }
