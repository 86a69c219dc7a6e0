// The kernel: BLAKE3's compression of four inputs at once in WebAssembly with SIMD. Vector i holds word i of four
// states. The bytes of the module are made here, when the script starts, so there is no file that somebody has to
// trust or to build again. The rounds are those of the BLAKE3 paper, section 2.2.

export const IV = Uint32Array.of(
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19);

/** ORDER says which word of a block each of the 16 words of each of seven rounds is. */
export const ORDER = ((): Uint8Array => {
	const permutation = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
	const order = new Uint8Array(7 * 16);
	for (let i = 0; i < 16; i++) {
		order[i] = i;
	}
	for (let i = 16; i < order.length; i++) {
		order[i] = order[i - 16 - (i % 16) + permutation[i % 16]!]!;
	}
	return order;
})();

/** INPUT and OUTPUT are where the kernel's memory holds up to 64 KiB of input, and values of 32 bytes. */
export const INPUT = 0, OUTPUT = 65536;

/** Kernel hashes. many compresses four inputs of some blocks of 64 bytes, which lie stride bytes apart from at on, and
 * puts their four chaining values at to. The counter of the first input is lo and hi, that of the next lo + step. flags
 * are those of every block, start and end those of the first and of the last beside. */
export interface Kernel {
	memory: Uint8Array;
	words: Uint32Array; // the same memory
	many(at: number, stride: number, blocks: number, lo: number, hi: number, step: number,
		flags: number, start: number, end: number, to: number): void;
}

// The opcodes, those of SIMD as they stand behind their prefix.
const GET = 0x20, SET = 0x21, CONST = 0x41, ADD = 0x6a, OR = 0x72, SUB = 0x6b, EQ = 0x46, SELECT = 0x1b;
const SIMD = {load: [0, 4], store: [11, 4], shuffle: [13], splat: [17], or: [80], xor: [81],
	shl: [171, 1], shr: [173, 1], add: [174, 1], mul: [181, 1]};
const I32 = 0x7f, V128 = 0x7b;

// The locals: ten parameters, the flags of the block, and the vectors.
const AT = 0, STRIDE = 1, BLOCKS = 2, LO = 3, HI = 4, STEP = 5, FLAGS = 6, FIRST = 7, LAST = 8, TO = 9, NOW = 10;
const H = 11, M = H + 8, V = M + 16, T = V + 16, COUNT_LO = T + 4, COUNT_HI = COUNT_LO + 1, LOCALS = COUNT_HI + 1 - H;

/** signed writes a number in LEB128. */
function signed(n: number): number[] {
	const out: number[] = [];
	for (n |= 0; ;) {
		const low = n & 127;
		n >>= 7;
		if ((n === 0 && !(low & 64)) || (n === -1 && (low & 64) !== 0)) {
			return [...out, low];
		}
		out.push(low | 128);
	}
}

/** unsigned writes a number in LEB128. */
function unsigned(n: number): number[] {
	return n < 128 ? [n] : [(n & 127) | 128, ...unsigned(n >>> 7)];
}

/** body writes the code of many. */
function body(): number[] {
	const code: number[] = [];
	const emit = (...bytes: number[]): void => void code.push(...bytes);
	const simd = (op: number[]): void => emit(0xfd, ...op);
	const get = (...locals: number[]): void => locals.forEach((i) => emit(GET, i));
	const set = (i: number): void => emit(SET, i);
	const number = (n: number): void => emit(CONST, ...signed(n));
	const splat = (n: number): void => {
		number(n);
		simd(SIMD.splat);
	};
	/** shuffle puts four words of the vectors a and b into to: 0 to 3 are words of a, 4 to 7 of b. */
	const shuffle = (a: number, b: number, to: number, words: number[]): void => {
		get(a, b);
		simd(SIMD.shuffle);
		words.forEach((w) => emit(4 * w, 4 * w + 1, 4 * w + 2, 4 * w + 3));
		set(to);
	};
	/** transpose makes of four vectors of one input each four of one word each, or the other way around. */
	const transpose = (v: number): void => {
		shuffle(v, v + 1, T, [0, 4, 1, 5]);
		shuffle(v + 2, v + 3, T + 1, [0, 4, 1, 5]);
		shuffle(v, v + 1, T + 2, [2, 6, 3, 7]);
		shuffle(v + 2, v + 3, T + 3, [2, 6, 3, 7]);
		shuffle(T, T + 1, v, [0, 1, 4, 5]);
		shuffle(T, T + 1, v + 1, [2, 3, 6, 7]);
		shuffle(T + 2, T + 3, v + 2, [0, 1, 4, 5]);
		shuffle(T + 2, T + 3, v + 3, [2, 3, 6, 7]);
	};
	/** turn rotates each word of the xor of two vectors right. */
	const turn = (a: number, b: number, by: number): void => {
		get(a, b);
		simd(SIMD.xor);
		set(a);
		if (by % 8 === 0) {
			get(a, a);
			simd(SIMD.shuffle);
			for (let i = 0; i < 16; i++) {
				emit((i & ~3) + ((i + by / 8) & 3));
			}
		} else {
			get(a);
			number(by);
			simd(SIMD.shr);
			get(a);
			number(32 - by);
			simd(SIMD.shl);
			simd(SIMD.or);
		}
		set(a);
	};
	const sum = (a: number, ...more: number[]): void => {
		get(a);
		more.forEach((m) => {
			get(m);
			simd(SIMD.add);
		});
		set(a);
	};
	const mix = (a: number, b: number, c: number, d: number, x: number, y: number): void => {
		sum(a, b, x);
		turn(d, a, 16);
		sum(c, d);
		turn(b, c, 12);
		sum(a, b, y);
		turn(d, a, 8);
		sum(c, d);
		turn(b, c, 7);
	};

	get(LO);
	simd(SIMD.splat);
	get(STEP);
	simd(SIMD.splat);
	simd([12, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
	simd(SIMD.mul);
	simd(SIMD.add);
	set(COUNT_LO);
	get(HI);
	simd(SIMD.splat);
	set(COUNT_HI);
	for (let i = 0; i < 8; i++) {
		splat(IV[i]!);
		set(H + i);
	}
	get(FLAGS, FIRST);
	emit(OR);
	set(NOW);
	emit(0x03, 0x40); // loop
	for (let q = 0; q < 4; q++) {
		for (let lane = 0; lane < 4; lane++) {
			get(AT);
			for (let i = 0; i < lane; i++) {
				get(STRIDE);
				emit(ADD);
			}
			simd([...SIMD.load, 16 * q]);
			set(M + 4 * q + lane);
		}
		transpose(M + 4 * q);
	}
	get(NOW, LAST);
	number(0);
	get(BLOCKS);
	number(1);
	emit(EQ, SELECT, OR);
	set(NOW);
	for (let i = 0; i < 8; i++) {
		get(H + i);
		set(V + i);
	}
	for (let i = 0; i < 4; i++) {
		splat(IV[i]!);
		set(V + 8 + i);
	}
	get(COUNT_LO);
	set(V + 12);
	get(COUNT_HI);
	set(V + 13);
	splat(64);
	set(V + 14);
	get(NOW);
	simd(SIMD.splat);
	set(V + 15);
	for (let r = 0; r < 112; r += 16) {
		for (let i = 0; i < 8; i++) {
			const turned = (k: number): number => V + 4 * k + (i < 4 ? i : (i + k) % 4);
			mix(turned(0), turned(1), turned(2), turned(3), M + ORDER[r + 2 * i]!, M + ORDER[r + 2 * i + 1]!);
		}
	}
	for (let i = 0; i < 8; i++) {
		get(V + i, V + 8 + i);
		simd(SIMD.xor);
		set(H + i);
	}
	get(AT);
	number(64);
	emit(ADD);
	set(AT);
	get(FLAGS);
	set(NOW);
	get(BLOCKS);
	number(1);
	emit(SUB, 0x22, BLOCKS, 0x0d, 0, 0x0b); // tee, br_if to the loop's begin, end
	for (const half of [0, 4]) {
		transpose(H + half);
		for (let lane = 0; lane < 4; lane++) {
			get(TO, H + half + lane);
			simd([...SIMD.store, ...unsigned(32 * lane + 4 * half)]);
		}
	}
	return [...code, 0x0b];
}

/** assemble returns the bytes of the module. */
export function assemble(): Uint8Array<ArrayBuffer> {
	const section = (id: number, bytes: number[]): number[] => [id, ...unsigned(bytes.length), ...bytes];
	const name = (text: string): number[] => [text.length, ...[...text].map((c) => c.charCodeAt(0))];
	const code = [2, 1, I32, LOCALS, V128, ...body()]; // behind its locals
	return Uint8Array.from([
		0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
		...section(1, [1, 0x60, 10, ...Array<number>(10).fill(I32), 0]), // its type
		...section(3, [1, 0]),
		...section(5, [1, 1, 2, 2]), // two pages of memory
		...section(7, [2, ...name("memory"), 2, 0, ...name("many"), 0, 0]),
		...section(10, [1, ...unsigned(code.length), ...code]),
	]);
}

/** load returns the kernel, or null where the browser has no such instructions, or the page's policy forbids them. */
export function load(): Kernel | null {
	try {
		const module = new WebAssembly.Module(assemble());
		const {memory, many} = new WebAssembly.Instance(module).exports;
		const {buffer} = memory as WebAssembly.Memory;
		return {memory: new Uint8Array(buffer), words: new Uint32Array(buffer), many: many as Kernel["many"]};
	} catch {
		return null;
	}
}
