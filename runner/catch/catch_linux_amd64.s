#include "textflag.h"

// The kernel calls a handler with the signal in DI, on the thread's signal
// stack, and restores all registers behind it. It must not touch what is Go's.

TEXT note<>(SB),NOSPLIT|NOFRAME,$0
	SUBQ	$8, SP
	MOVQ	DI, 0(SP)
	MOVL	·pipe(SB), DI
	MOVQ	SP, SI
	MOVQ	$1, DX
	MOVQ	$1, AX // write
	SYSCALL
	ADDQ	$8, SP
	RET

TEXT nothing<>(SB),NOSPLIT|NOFRAME,$0
	RET

TEXT restore<>(SB),NOSPLIT|NOFRAME,$0
	MOVQ	$15, AX // rt_sigreturn
	SYSCALL
	INT	$3

// func handlers() (note, nothing, restore uintptr)
TEXT ·handlers(SB),NOSPLIT,$0-24
	MOVQ	$note<>(SB), AX
	MOVQ	AX, note+0(FP)
	MOVQ	$nothing<>(SB), AX
	MOVQ	AX, nothing+8(FP)
	MOVQ	$restore<>(SB), AX
	MOVQ	AX, restore+16(FP)
	RET
