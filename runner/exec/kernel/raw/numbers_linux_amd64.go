//go:build !crew_portable

package raw

const (
	sysRtSigaction = 13
	sysPrlimit64   = 302
)
