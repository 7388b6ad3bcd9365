//go:build !riscv64

package cli

import "golang.org/x/sys/unix"

func init() {
	callNames[unix.SYS_RENAMEAT] = "renameat"
	byName[unix.SYS_RENAMEAT] = true
}
