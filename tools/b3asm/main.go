// Command b3asm writes the kernels of package b3, functions that hash eight inputs at
// a time with AVX2 or sixteen with AVX-512: vector i holds word i of so many states.
// They follow the BLAKE3 paper (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020),
// section 2.2.
//
// With AVX-512 the sixteen state vectors and the message fit the registers. With AVX2
// the state vectors and one temporary do not, so one row-c vector lives on the stack.
// The message lives there too, its words gathered across the inputs once per block;
// rounds only read it, under the permutation, which is settled here.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	rounds    = 7
	blockSize = 64
	wordSize  = 4
	partSize  = 16 // of four words: what shuffles stay within
	cvSize    = 32

	spilled = 11 // the state vector on the stack, with AVX2
)

// permutation says which word of a round's message each word of the next
// round's is.
var permutation = [16]int{2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8}

var initial = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

// kernel is one of the two functions. Its fields are the registers and memory that it
// works with.
type kernel struct {
	parts   int // of a vector, each of partSize bytes
	state   [16]VecPhysical
	message [16]Op

	// With AVX2: the spilled vector, whose register is the temporary.
	spill Mem
	temp  VecPhysical
}

// The constants.
var iv, length, turn16, turn8 Mem

func main() {
	constants()
	(&kernel{
		parts: 2, temp: Y11,
		state: [16]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15},
	}).write()
	(&kernel{
		parts:   4,
		state:   [16]VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15},
		message: [16]Op{Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31},
	}).write()
	Generate()
}

func (k *kernel) wide() bool      { return k.parts == 4 }
func (k *kernel) inputs() int     { return 4 * k.parts }
func (k *kernel) vectorSize() int { return partSize * k.parts }

// write writes the function.
func (k *kernel) write() {
	n := k.inputs()
	TEXT(fmt.Sprint("hash", n), 0, fmt.Sprintf(
		"func(in *byte, stride uint64, flags []uint32, counters *[2][%d]uint32, out *byte)", n))
	Pragma("noescape")
	if !k.wide() {
		k.locals()
	}

	in := []Register{Load(Param("in"), GP64())} // of the inputs 0, 4, …
	stride := Load(Param("stride"), GP64())
	flags := Load(Param("flags").Base(), GP64())
	blocks := Load(Param("flags").Len(), GP64())
	counters := Load(Param("counters"), GP64())
	stride3 := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	for len(in) < k.parts {
		next := GP64()
		LEAQ(Mem{Base: in[len(in)-1], Index: stride, Scale: 4}, next)
		in = append(in, next)
	}

	for i := range initial {
		VPBROADCASTD(iv.Offset(i*wordSize), k.state[i])
	}
	Label("block")
	k.gather(in, stride, stride3)
	for i := 8; i < 12; i++ {
		VPBROADCASTD(iv.Offset((i-8)*wordSize), k.state[i])
	}
	if !k.wide() {
		k.move(k.temp, k.spill)
	}
	k.move(Mem{Base: counters}, k.state[12])
	k.move(Mem{Base: counters, Disp: k.vectorSize()}, k.state[13])
	VPBROADCASTD(length, k.state[14])
	VPBROADCASTD(Mem{Base: flags}, k.state[15])
	k.compress()
	for _, base := range in {
		ADDQ(Imm(blockSize), base)
	}
	ADDQ(Imm(wordSize), flags)
	DECQ(blocks)
	JNZ(LabelRef("block"))

	k.scatter(Load(Param("out"), GP64()))
	VZEROUPPER()
	RET()
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
	for at := range 2 * partSize {
		DATA(at, U8(at%partSize&^3+(at+bits/8)%4))
	}
	return m
}

// locals lays out the stack. Go aligns it to 8 bytes only, and a vector that
// straddles two cache lines costs twice.
func (k *kernel) locals() {
	size := k.vectorSize()
	frame := AllocLocal(17*size + size - 8)
	base := GP64()
	LEAQ(frame.Offset(size-8), base)
	ANDQ(I32(-size), base)
	k.spill = Mem{Base: base}
	for i := range k.message {
		k.message[i] = k.spill.Offset((1 + i) * size)
	}
}

// gather puts word i of each input's next block into message[i]. in has the addresses
// of inputs 0, 4, … in that. The state's first half keeps the chaining values meanwhile.
func (k *kernel) gather(in []Register, stride, stride3 Register) {
	for quarter := range 4 {
		rows := [4]VecPhysical(k.state[8:])
		for i, at := range [4]Mem{
			{}, {Index: stride, Scale: 1}, {Index: stride, Scale: 2}, {Index: stride3, Scale: 1},
		} {
			at.Disp = quarter * partSize
			for part, base := range in {
				at.Base = base
				k.insert(part, at, rows[i])
			}
		}
		words := rows
		if k.wide() {
			for i := range words {
				words[i] = k.message[quarter*4+i].(VecPhysical)
			}
		}
		transpose(rows, [4]VecPhysical(k.state[12:]), words)
		if !k.wide() {
			for i, r := range words {
				k.move(r, k.message[quarter*4+i])
			}
		}
	}
}

// scatter stores the chaining values one after the other at out.
func (k *kernel) scatter(out Register) {
	for half := range 2 {
		rows := [4]VecPhysical(k.state[half*4:])
		transpose(rows, [4]VecPhysical(k.state[8:]), rows)
		for i, r := range rows {
			for part := range k.parts {
				k.extract(part, r, Mem{Base: out, Disp: (4*part+i)*cvSize + half*partSize})
			}
		}
	}
}

// transpose exchanges rows and columns of the 4×4 words in each part of rows, and puts
// the result into columns, which may be rows.
func transpose(rows, free, columns [4]VecPhysical) {
	VPUNPCKLDQ(rows[1], rows[0], free[0])
	VPUNPCKHDQ(rows[1], rows[0], free[1])
	VPUNPCKLDQ(rows[3], rows[2], free[2])
	VPUNPCKHDQ(rows[3], rows[2], free[3])
	VPUNPCKLQDQ(free[2], free[0], columns[0])
	VPUNPCKHQDQ(free[2], free[0], columns[1])
	VPUNPCKLQDQ(free[3], free[1], columns[2])
	VPUNPCKHQDQ(free[3], free[1], columns[3])
}

// compress runs the rounds over state and message and leaves the chaining values
// in the state's first half.
func (k *kernel) compress() {
	schedule := k.message
	for range rounds {
		k.step(0, [8]Op(schedule[:8]))
		k.step(1, [8]Op(schedule[8:]))
		var next [16]Op
		for i, from := range permutation {
			next[i] = schedule[from]
		}
		schedule = next
	}
	for i := range 8 {
		if k.isSpilled(i + 8) {
			k.xor(k.spill, k.state[i])
		} else {
			k.xor(k.state[i+8], k.state[i])
		}
	}
}

func (k *kernel) isSpilled(i int) bool { return !k.wide() && i == spilled }

// step is the four G functions of a round's columns (diagonal 0) or diagonals
// (1), by quarters of G in turn, so that the machine finds work in one while it
// waits for another.
func (k *kernel) step(diagonal int, words [8]Op) {
	for half := range 2 {
		a := func(g int) VecPhysical { return k.state[g] }
		b := func(g int) VecPhysical { return k.state[4+(g+diagonal)%4] }
		c := func(g int) int { return 8 + (g+2*diagonal)%4 }
		d := func(g int) VecPhysical { return k.state[12+(g+3*diagonal)%4] }
		for g := range 4 {
			VPADDD(words[2*g+half], a(g), a(g))
			VPADDD(b(g), a(g), a(g))
			k.xor(a(g), d(g))
			k.rotate([2]uint64{16, 8}[half], d(g))
		}
		for g := range 4 {
			if k.isSpilled(c(g)) {
				VPADDD(k.spill, d(g), k.temp)
				k.move(k.temp, k.spill)
			} else {
				VPADDD(d(g), k.state[c(g)], k.state[c(g)])
			}
			k.xor(k.state[c(g)], b(g))
			k.rotate([2]uint64{12, 7}[half], b(g))
		}
	}
}

// rotate rotates each word of v right.
func (k *kernel) rotate(bits uint64, v VecPhysical) {
	switch {
	case k.wide():
		VPRORD(Imm(bits), v, v)
	case bits == 16:
		VPSHUFB(turn16, v, v)
	case bits == 8:
		VPSHUFB(turn8, v, v)
	default:
		VPSLLD(Imm(32-bits), v, k.temp)
		VPSRLD(Imm(bits), v, v)
		VPOR(k.temp, v, v)
	}
}

// xor sets v to v ⊕ with.
func (k *kernel) xor(with Op, v VecPhysical) {
	if k.wide() {
		VPXORD(with, v, v)
	} else {
		VPXOR(with, v, v)
	}
}

// move copies a vector from or to memory.
func (k *kernel) move(from, to Op) {
	if k.wide() {
		VMOVDQU32(from, to)
	} else {
		VMOVDQU(from, to)
	}
}

// insert loads a part of v, the first one first.
func (k *kernel) insert(part int, from Mem, v VecPhysical) {
	switch {
	case part == 0:
		VMOVDQU(from, v.AsX())
	case k.wide():
		VINSERTI32X4(Imm(uint64(part)), from, v, v)
	default:
		VINSERTI128(Imm(uint64(part)), from, v, v)
	}
}

// extract stores a part of v.
func (k *kernel) extract(part int, v VecPhysical, to Mem) {
	switch {
	case part == 0:
		VMOVDQU(v.AsX(), to)
	case k.wide():
		VEXTRACTI32X4(Imm(uint64(part)), v, to)
	default:
		VEXTRACTI128(Imm(uint64(part)), v, to)
	}
}
