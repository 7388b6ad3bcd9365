//go:build !crew_portable

#include "textflag.h"

// A Call is seven words: number, four arguments, want, got. System calls leave
// all registers alone but AX, CX and R11. The child shares the parent's stack
// and does not touch it.

#define CALL(R) \
	MOVQ	0(R), AX \
	MOVQ	8(R), DI \
	MOVQ	16(R), SI \
	MOVQ	24(R), DX \
	MOVQ	32(R), R10 \
	SYSCALL \
	MOVQ	AX, 48(R)

// func clone(args *cloneArgs, size uintptr, calls *Call) (pid uintptr)
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	calls+16(FP), R12
	MOVQ	$435, AX // clone3
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	AX, pid+24(FP)
	RET
child:
	CALL(R12)
	MOVQ	40(R12), BX
	ADDQ	$56, R12
	CMPQ	AX, BX
	JEQ	child
	MOVQ	$231, AX // exit_group
	MOVQ	$127, DI
	SYSCALL
	INT	$3

// func do(c *Call)
TEXT ·do(SB),NOSPLIT|NOFRAME,$0-8
	MOVQ	c+0(FP), R12
	CALL(R12)
	RET

// The kernel calls a handler with the signal in DI, on the thread's signal
// stack, and restores all registers afterwards. It must not touch Go's state.

TEXT note<>(SB),NOSPLIT|NOFRAME,$0
	SUBQ	$8, SP
	MOVQ	DI, 0(SP)
	MOVL	·Pipe(SB), DI
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

// func Handlers() (note, nothing, restore uintptr)
TEXT ·Handlers(SB),NOSPLIT,$0-24
	MOVQ	$note<>(SB), AX
	MOVQ	AX, note+0(FP)
	MOVQ	$nothing<>(SB), AX
	MOVQ	AX, nothing+8(FP)
	MOVQ	$restore<>(SB), AX
	MOVQ	AX, restore+16(FP)
	RET
