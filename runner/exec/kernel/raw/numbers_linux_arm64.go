//go:build !crew_portable

package raw

const (
	sysRtSigaction = 134
	sysPrlimit64   = 261
)
