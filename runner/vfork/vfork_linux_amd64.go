package vfork

const sysPrlimit64 = 302
