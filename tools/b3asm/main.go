// Command b3asm writes the AVX2 kernel of package b3, one function that hashes
// eight inputs at a time: vector i holds word i of eight states. It follows the
// BLAKE3 paper (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020), section 2.2.
//
// The sixteen state vectors and one temporary do not fit the sixteen registers,
// so one row-c vector lives on the stack. The message lives there too, its words
// gathered across the inputs once per block; rounds only read it, under the
// permutation, which is settled here.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	rounds     = 7
	blockSize  = 64
	wordSize   = 4
	vectorSize = 32 // of eight words

	spilled = 11 // the state vector on the stack
)

// permutation says which word of a round's message each word of the next
// round's is.
var permutation = [16]int{2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8}

var initial = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

// state are the registers of the sixteen state vectors; the one of the spilled
// vector is the temporary.
var (
	state = [16]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
	temp  = state[spilled]
)

// Memory that the kernel works with: the constants, and on the stack the
// spilled vector and the message.
var (
	iv, length, turn16, turn8 Mem
	spill                     Mem
	message                   [16]Mem
)

func main() {
	constants()
	TEXT("hash8", 0, "func(in *byte, stride uint64, flags []uint32, counters *[2][8]uint32, out *byte)")
	Pragma("noescape")
	locals()

	in := Load(Param("in"), GP64())
	stride := Load(Param("stride"), GP64())
	flags := Load(Param("flags").Base(), GP64())
	blocks := Load(Param("flags").Len(), GP64())
	counters := Load(Param("counters"), GP64())
	stride3, in4 := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	LEAQ(Mem{Base: in, Index: stride, Scale: 4}, in4)

	for i := range initial {
		VPBROADCASTD(iv.Offset(i*wordSize), state[i])
	}
	Label("block")
	gather(in, in4, stride, stride3)
	for i := 8; i < 12; i++ {
		VPBROADCASTD(iv.Offset((i-8)*wordSize), state[i])
	}
	VMOVDQU(temp, spill)
	VMOVDQU(Mem{Base: counters}, state[12])
	VMOVDQU(Mem{Base: counters, Disp: vectorSize}, state[13])
	VPBROADCASTD(length, state[14])
	VPBROADCASTD(Mem{Base: flags}, state[15])
	compress()
	ADDQ(Imm(blockSize), in)
	ADDQ(Imm(blockSize), in4)
	ADDQ(Imm(wordSize), flags)
	DECQ(blocks)
	JNZ(LabelRef("block"))

	scatter(Load(Param("out"), GP64()))
	VZEROUPPER()
	RET()
	Generate()
}

// constants lays out the read-only data.
func constants() {
	iv = GLOBL("iv", RODATA|NOPTR)
	for i, w := range initial {
		DATA(i*wordSize, U32(w))
	}
	length = GLOBL("length", RODATA|NOPTR)
	DATA(0, U32(blockSize))
	turn16, turn8 = turn("turn16", 16), turn("turn8", 8)
}

// turn is a VPSHUFB operand that rotates every word right by a number of bits
// that is a multiple of 8.
func turn(name string, bits int) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for at := range vectorSize {
		DATA(at, U8(at%16&^3+(at+bits/8)%4)) // the shuffle counts within halves
	}
	return m
}

// locals lays out the stack. Go aligns it to 8 bytes only, and a vector that
// straddles two cache lines costs twice.
func locals() {
	frame := AllocLocal(17*vectorSize + vectorSize - 8)
	base := GP64()
	LEAQ(frame.Offset(vectorSize-8), base)
	ANDQ(I32(-vectorSize), base)
	spill = Mem{Base: base}
	for i := range message {
		message[i] = spill.Offset((1 + i) * vectorSize)
	}
}

// gather stores word i of each input's next block as message[i]. The state's
// first half keeps the chaining values meanwhile.
func gather(in, in4, stride, stride3 Register) {
	for quarter := range 4 {
		rows := [4]VecPhysical(state[8:])
		for i, at := range [4]Mem{{}, {Index: stride, Scale: 1}, {Index: stride, Scale: 2}, {Index: stride3, Scale: 1}} {
			at.Disp = quarter * 16
			low, high := at, at
			low.Base, high.Base = in, in4
			VMOVDQU(low, rows[i].AsX())
			VINSERTI128(Imm(1), high, rows[i], rows[i])
		}
		transpose(rows, [4]VecPhysical(state[12:]))
		for i, r := range rows {
			VMOVDQU(r, message[quarter*4+i])
		}
	}
}

// scatter stores the eight chaining values one after the other at out.
func scatter(out Register) {
	for half := range 2 {
		rows := [4]VecPhysical(state[half*4:])
		transpose(rows, [4]VecPhysical(state[8:]))
		for i, r := range rows {
			at := Mem{Base: out, Disp: i*vectorSize + half*16}
			VMOVDQU(r.AsX(), at)
			VEXTRACTI128(Imm(1), r, at.Offset(4*vectorSize))
		}
	}
}

// transpose exchanges rows and columns of the 4×4 words in the low halves of
// rows, and of those in the high halves.
func transpose(rows, free [4]VecPhysical) {
	VPUNPCKLDQ(rows[1], rows[0], free[0])
	VPUNPCKHDQ(rows[1], rows[0], free[1])
	VPUNPCKLDQ(rows[3], rows[2], free[2])
	VPUNPCKHDQ(rows[3], rows[2], free[3])
	VPUNPCKLQDQ(free[2], free[0], rows[0])
	VPUNPCKHQDQ(free[2], free[0], rows[1])
	VPUNPCKLQDQ(free[3], free[1], rows[2])
	VPUNPCKHQDQ(free[3], free[1], rows[3])
}

// compress runs the rounds over state and message and leaves the chaining values
// in the state's first half.
func compress() {
	schedule := message
	for range rounds {
		step(0, [8]Mem(schedule[:8]))
		step(1, [8]Mem(schedule[8:]))
		var next [16]Mem
		for i, from := range permutation {
			next[i] = schedule[from]
		}
		schedule = next
	}
	for i := range 8 {
		if i+8 == spilled {
			VPXOR(spill, state[i], state[i])
		} else {
			VPXOR(state[i+8], state[i], state[i])
		}
	}
}

// step is the four G functions of a round's columns (diagonal 0) or diagonals
// (1), by quarters of G in turn, so that the machine finds work in one while it
// waits for another.
func step(diagonal int, words [8]Mem) {
	for half := range 2 {
		turned, bits := turn16, uint64(12)
		if half == 1 {
			turned, bits = turn8, 7
		}
		a := func(g int) int { return g }
		b := func(g int) int { return 4 + (g+diagonal)%4 }
		c := func(g int) int { return 8 + (g+2*diagonal)%4 }
		d := func(g int) int { return 12 + (g+3*diagonal)%4 }
		for g := range 4 {
			VPADDD(words[2*g+half], state[a(g)], state[a(g)])
			VPADDD(state[b(g)], state[a(g)], state[a(g)])
			VPXOR(state[a(g)], state[d(g)], state[d(g)])
			VPSHUFB(turned, state[d(g)], state[d(g)])
		}
		for g := range 4 {
			if c(g) == spilled {
				VPADDD(spill, state[d(g)], temp)
				VMOVDQU(temp, spill)
			} else {
				VPADDD(state[d(g)], state[c(g)], state[c(g)])
			}
			VPXOR(state[c(g)], state[b(g)], state[b(g)])
			VPSLLD(Imm(32-bits), state[b(g)], temp)
			VPSRLD(Imm(bits), state[b(g)], state[b(g)])
			VPOR(temp, state[b(g)], state[b(g)])
		}
	}
}
