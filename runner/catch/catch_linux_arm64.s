#include "textflag.h"

// The kernel calls a handler with the signal in R0, on the thread's signal
// stack, and restores all registers behind it. It must not touch what is Go's.

TEXT note<>(SB),NOSPLIT|NOFRAME,$0
	SUB	$16, RSP
	MOVD	R0, 0(RSP)
	MOVD	$·pipe(SB), R1
	MOVW	(R1), R0
	MOVD	RSP, R1
	MOVD	$1, R2
	MOVD	$64, R8 // write
	SVC
	ADD	$16, RSP
	RET

TEXT nothing<>(SB),NOSPLIT|NOFRAME,$0
	RET

TEXT restore<>(SB),NOSPLIT|NOFRAME,$0
	MOVD	$139, R8 // rt_sigreturn
	SVC

// func handlers() (note, nothing, restore uintptr)
TEXT ·handlers(SB),NOSPLIT,$0-24
	MOVD	$note<>(SB), R0
	MOVD	R0, note+0(FP)
	MOVD	$nothing<>(SB), R0
	MOVD	R0, nothing+8(FP)
	MOVD	$restore<>(SB), R0
	MOVD	R0, restore+16(FP)
	RET
