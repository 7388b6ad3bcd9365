//go:build !crew_portable

#include "textflag.h"

// A Call is seven words: number, four arguments, want, got. System calls leave
// all registers alone but R0. The child shares the parent's stack and does not
// touch it.

#define CALL(R) \
	MOVD	0(R), R8 \
	MOVD	8(R), R0 \
	MOVD	16(R), R1 \
	MOVD	24(R), R2 \
	MOVD	32(R), R3 \
	SVC \
	MOVD	R0, 48(R)

// func clone(args *cloneArgs, size uintptr, calls *Call) (pid uintptr)
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-32
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	calls+16(FP), R9
	MOVD	$435, R8 // clone3
	SVC
	CBZ	R0, child
	MOVD	R0, pid+24(FP)
	RET
child:
	CALL(R9)
	MOVD	40(R9), R10
	ADD	$56, R9
	CMP	R10, R0
	BEQ	child
	MOVD	$94, R8 // exit_group
	MOVD	$127, R0
	SVC
	UNDEF

// func do(c *Call)
TEXT ·do(SB),NOSPLIT|NOFRAME,$0-8
	MOVD	c+0(FP), R9
	CALL(R9)
	RET

// The kernel calls a handler with the signal in R0, on the thread's signal
// stack, and restores all registers afterwards. It must not touch Go's state.

TEXT note<>(SB),NOSPLIT|NOFRAME,$0
	SUB	$16, RSP
	MOVD	R0, 0(RSP)
	MOVD	$·Pipe(SB), R1
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

// func Handlers() (note, nothing, restore uintptr)
TEXT ·Handlers(SB),NOSPLIT,$0-24
	MOVD	$note<>(SB), R0
	MOVD	R0, note+0(FP)
	MOVD	$nothing<>(SB), R0
	MOVD	R0, nothing+8(FP)
	MOVD	$restore<>(SB), R0
	MOVD	R0, restore+16(FP)
	RET
