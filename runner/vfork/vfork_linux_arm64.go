package vfork

const sysPrlimit64 = 261
