// BLAKE3 of chunk groups: 64 KiB of an object, which have 64 chunks of 1 KiB. Four chunks at a time are hashed in
// WebAssembly where that is possible. What is left of a short group, and everything elsewhere, is hashed in JavaScript.

import {GROUP} from "./size";
import {INPUT, IV, Kernel, ORDER, OUTPUT, load} from "./kernel";

export const PARENT = 64, ROOT = 8;
const CHUNK = 1024, BLOCK = 64;
const START = 1, END = 2, PARENT_FLAG = 4;
const TWO32 = 2 ** 32;
const CHUNKS = GROUP / CHUNK, LANES = 4;

const kernel: Kernel | null = load();

/** engine says what hashes: "simd" or "javascript". */
export const engine = kernel ? "simd" : "javascript";

const m = new Uint32Array(16); // the block being compressed

/** compress replaces cv at index at with the compression of the block in m. */
function compress(cv: Uint32Array, at: number, lo: number, hi: number, length: number, flags: number): void {
	let s0 = cv[at], s1 = cv[at + 1], s2 = cv[at + 2], s3 = cv[at + 3];
	let s4 = cv[at + 4], s5 = cv[at + 5], s6 = cv[at + 6], s7 = cv[at + 7];
	let s8 = IV[0], s9 = IV[1], s10 = IV[2], s11 = IV[3], s12 = lo | 0, s13 = hi | 0, s14 = length | 0, s15 = flags | 0;
	for (let r = 0; r < 112; r += 16) {
		let x = m[ORDER[r]], y = m[ORDER[r + 1]];
		s0 = (s0 + s4 + x) | 0; s12 ^= s0; s12 = (s12 >>> 16) | (s12 << 16);
		s8 = (s8 + s12) | 0; s4 ^= s8; s4 = (s4 >>> 12) | (s4 << 20);
		s0 = (s0 + s4 + y) | 0; s12 ^= s0; s12 = (s12 >>> 8) | (s12 << 24);
		s8 = (s8 + s12) | 0; s4 ^= s8; s4 = (s4 >>> 7) | (s4 << 25);
		x = m[ORDER[r + 2]]; y = m[ORDER[r + 3]];
		s1 = (s1 + s5 + x) | 0; s13 ^= s1; s13 = (s13 >>> 16) | (s13 << 16);
		s9 = (s9 + s13) | 0; s5 ^= s9; s5 = (s5 >>> 12) | (s5 << 20);
		s1 = (s1 + s5 + y) | 0; s13 ^= s1; s13 = (s13 >>> 8) | (s13 << 24);
		s9 = (s9 + s13) | 0; s5 ^= s9; s5 = (s5 >>> 7) | (s5 << 25);
		x = m[ORDER[r + 4]]; y = m[ORDER[r + 5]];
		s2 = (s2 + s6 + x) | 0; s14 ^= s2; s14 = (s14 >>> 16) | (s14 << 16);
		s10 = (s10 + s14) | 0; s6 ^= s10; s6 = (s6 >>> 12) | (s6 << 20);
		s2 = (s2 + s6 + y) | 0; s14 ^= s2; s14 = (s14 >>> 8) | (s14 << 24);
		s10 = (s10 + s14) | 0; s6 ^= s10; s6 = (s6 >>> 7) | (s6 << 25);
		x = m[ORDER[r + 6]]; y = m[ORDER[r + 7]];
		s3 = (s3 + s7 + x) | 0; s15 ^= s3; s15 = (s15 >>> 16) | (s15 << 16);
		s11 = (s11 + s15) | 0; s7 ^= s11; s7 = (s7 >>> 12) | (s7 << 20);
		s3 = (s3 + s7 + y) | 0; s15 ^= s3; s15 = (s15 >>> 8) | (s15 << 24);
		s11 = (s11 + s15) | 0; s7 ^= s11; s7 = (s7 >>> 7) | (s7 << 25);
		x = m[ORDER[r + 8]]; y = m[ORDER[r + 9]];
		s0 = (s0 + s5 + x) | 0; s15 ^= s0; s15 = (s15 >>> 16) | (s15 << 16);
		s10 = (s10 + s15) | 0; s5 ^= s10; s5 = (s5 >>> 12) | (s5 << 20);
		s0 = (s0 + s5 + y) | 0; s15 ^= s0; s15 = (s15 >>> 8) | (s15 << 24);
		s10 = (s10 + s15) | 0; s5 ^= s10; s5 = (s5 >>> 7) | (s5 << 25);
		x = m[ORDER[r + 10]]; y = m[ORDER[r + 11]];
		s1 = (s1 + s6 + x) | 0; s12 ^= s1; s12 = (s12 >>> 16) | (s12 << 16);
		s11 = (s11 + s12) | 0; s6 ^= s11; s6 = (s6 >>> 12) | (s6 << 20);
		s1 = (s1 + s6 + y) | 0; s12 ^= s1; s12 = (s12 >>> 8) | (s12 << 24);
		s11 = (s11 + s12) | 0; s6 ^= s11; s6 = (s6 >>> 7) | (s6 << 25);
		x = m[ORDER[r + 12]]; y = m[ORDER[r + 13]];
		s2 = (s2 + s7 + x) | 0; s13 ^= s2; s13 = (s13 >>> 16) | (s13 << 16);
		s8 = (s8 + s13) | 0; s7 ^= s8; s7 = (s7 >>> 12) | (s7 << 20);
		s2 = (s2 + s7 + y) | 0; s13 ^= s2; s13 = (s13 >>> 8) | (s13 << 24);
		s8 = (s8 + s13) | 0; s7 ^= s8; s7 = (s7 >>> 7) | (s7 << 25);
		x = m[ORDER[r + 14]]; y = m[ORDER[r + 15]];
		s3 = (s3 + s4 + x) | 0; s14 ^= s3; s14 = (s14 >>> 16) | (s14 << 16);
		s9 = (s9 + s14) | 0; s4 ^= s9; s4 = (s4 >>> 12) | (s4 << 20);
		s3 = (s3 + s4 + y) | 0; s14 ^= s3; s14 = (s14 >>> 8) | (s14 << 24);
		s9 = (s9 + s14) | 0; s4 ^= s9; s4 = (s4 >>> 7) | (s4 << 25);
	}
	cv[at] = s0 ^ s8; cv[at + 1] = s1 ^ s9; cv[at + 2] = s2 ^ s10; cv[at + 3] = s3 ^ s11;
	cv[at + 4] = s4 ^ s12; cv[at + 5] = s5 ^ s13; cv[at + 6] = s6 ^ s14; cv[at + 7] = s7 ^ s15;
}

/** loadBlock puts bytes [from, to) of p, at most a block, into m. */
function loadBlock(p: Uint8Array, from: number, to: number): void {
	if (to - from === BLOCK) {
		for (let i = 0; i < 16; i++, from += 4) {
			m[i] = p[from] | (p[from + 1] << 8) | (p[from + 2] << 16) | (p[from + 3] << 24);
		}
		return;
	}
	m.fill(0);
	for (let i = 0; from < to; i++, from++) m[i >> 2] |= p[from] << (8 * (i & 3));
}

/** chunkCV puts the chaining value of the chunk p[from, to) into cv at index at. */
function chunkCV(
	cv: Uint32Array, at: number, p: Uint8Array, from: number, to: number, index: number, root: number): void {
	cv.set(IV, at);
	const lo = index % TWO32, hi = Math.floor(index / TWO32);
	let flags = START;
	for (; to - from > BLOCK; from += BLOCK, flags = 0) {
		loadBlock(p, from, from + BLOCK);
		compress(cv, at, lo, hi, BLOCK, flags);
	}
	loadBlock(p, from, to);
	compress(cv, at, lo, hi, to - from, flags | END | root);
}

/** merge replaces the two chaining values at index at with their parent's. */
function merge(cv: Uint32Array, at: number, root: number): void {
	for (let i = 0; i < 16; i++) m[i] = cv[at + i];
	cv.set(IV, at);
	compress(cv, at, 0, 0, BLOCK, PARENT_FLAG | root);
}

const stack = new Uint32Array(8 * 8); // of subtrees in one group

/** many leaves the values of as many chunks as come in fours in the kernel's output, and returns their number. */
function many(k: Kernel, p: Uint8Array, group: number): number {
	const chunks = Math.floor(p.length / (LANES * CHUNK)) * LANES;
	k.memory.set(p.subarray(0, chunks * CHUNK), INPUT);
	const first = group * CHUNKS, hi = Math.floor(first / TWO32), lo = first % TWO32;
	for (let i = 0; i < chunks; i += LANES) {
		k.many(INPUT + i * CHUNK, CHUNK, CHUNK / BLOCK, lo + i, hi, 1, 0, START, END, OUTPUT + 32 * i);
	}
	return chunks;
}

/** whole leaves the value of a whole group in stack[0…8). The last two parents are hashed one by one. */
function whole(k: Kernel, p: Uint8Array, group: number, root: number): void {
	for (let n = many(k, p, group); n > LANES; n /= 2) { // n values become n/2 parents, in place
		for (let i = 0; i < n / 2; i += LANES) {
			k.many(OUTPUT + PARENT * i, PARENT, 1, 0, 0, 0, PARENT_FLAG, 0, 0, OUTPUT + 32 * i);
		}
	}
	stack.set(k.words.subarray(OUTPUT / 4, OUTPUT / 4 + 8 * LANES));
	merge(stack, 0, 0);
	merge(stack, 16, 0);
	stack.copyWithin(8, 16, 24);
	merge(stack, 0, root);
}

/** groupCV returns the chaining value of group number group, whose bytes are p, as eight words. They are those of the
 * next call too. root is ROOT for the only group of an object. */
export function groupCV(p: Uint8Array, group: number, root: number): Uint32Array {
	if (kernel && p.length === GROUP) {
		whole(kernel, p, group, root);
		return stack.subarray(0, 8);
	}
	const ready = kernel ? many(kernel, p, group) : 0;
	const chunks = Math.max(1, Math.ceil(p.length / CHUNK));
	let depth = 0;
	for (let i = 0; i < chunks; i++) {
		if (i < ready) {
			stack.set(kernel!.words.subarray(OUTPUT / 4 + 8 * i, OUTPUT / 4 + 8 * i + 8), 8 * depth++);
		} else {
			const to = Math.min(p.length, (i + 1) * CHUNK);
			chunkCV(stack, 8 * depth++, p, i * CHUNK, to, group * CHUNKS + i, chunks === 1 ? root : 0);
		}
		for (let n = i + 1; n % 2 === 0 && i < chunks - 1; n /= 2) {
			merge(stack, 8 * (--depth - 1), 0);
		}
	}
	while (depth > 1) {
		merge(stack, 8 * (--depth - 1), depth === 1 ? root : 0);
	}
	return stack.subarray(0, 8);
}

/** parentCV returns the value of a parent of 64 bytes as groupCV does. */
export function parentCV(p: Uint8Array, root: number): Uint32Array {
	loadBlock(p, 0, PARENT);
	stack.set(IV);
	compress(stack, 0, 0, 0, BLOCK, PARENT_FLAG | root);
	return stack.subarray(0, 8);
}

/** hash returns the BLAKE3 hash of bytes as 64 hex digits. */
export function hash(p: Uint8Array): string {
	const groups = Math.max(1, Math.ceil(p.length / GROUP));
	const cvs = new Uint32Array(8 * 56);
	let depth = 0;
	for (let g = 0; g < groups; g++) {
		cvs.set(groupCV(p.subarray(g * GROUP, (g + 1) * GROUP), g, groups === 1 ? ROOT : 0), 8 * depth++);
		for (let n = g + 1; n % 2 === 0 && g < groups - 1; n /= 2) {
			merge(cvs, 8 * (--depth - 1), 0);
		}
	}
	while (depth > 1) {
		merge(cvs, 8 * (--depth - 1), depth === 1 ? ROOT : 0);
	}
	const view = new DataView(new ArrayBuffer(32));
	for (let i = 0; i < 8; i++) {
		view.setUint32(4 * i, cvs[i], true);
	}
	return Array.from(new Uint8Array(view.buffer), (b) => b.toString(16).padStart(2, "0")).join("");
}
