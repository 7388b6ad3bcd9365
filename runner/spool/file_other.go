//go:build !linux

package spool

import "os"

func openUnnamed(dir string) (*os.File, error) { return createRemoved(dir) }
