package raw

const (
	sysRtSigaction = 13
	sysPrlimit64   = 302
)
