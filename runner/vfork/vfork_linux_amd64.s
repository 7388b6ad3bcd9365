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
