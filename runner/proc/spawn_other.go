//go:build !linux || !(amd64 || arm64)

package proc

import "syscall"

// spawner starts processes. It is safe for concurrent use.
type spawner struct{}

func newSpawner() *spawner { return new(spawner) }

// start starts full with argv as attr says.
func (*spawner) start(full string, argv []string, attr *syscall.ProcAttr, _ *int32) (pid int, err error) {
	return syscall.ForkExec(full, argv, attr)
}
