//go:build !riscv64

package wiring

import "golang.org/x/sys/unix"

func init() {
	callNames[unix.SYS_RENAMEAT] = "renameat"
	byName[unix.SYS_RENAMEAT] = true
}
