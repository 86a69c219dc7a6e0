// BLAKE3 as its specification has it, without any speed: chunks of 1,024 bytes, and parents of two chaining values.

const IV = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8;
const BLOCK = 64, CHUNK = 1024;

type Words = number[];

function rotate(x: number, n: number): number {
  return (x >>> n) | (x << (32 - n));
}

function mix(s: Words, a: number, b: number, c: number, d: number, x: number, y: number): void {
  s[a] = (s[a] + s[b] + x) | 0;
  s[d] = rotate(s[d] ^ s[a], 16);
  s[c] = (s[c] + s[d]) | 0;
  s[b] = rotate(s[b] ^ s[c], 12);
  s[a] = (s[a] + s[b] + y) | 0;
  s[d] = rotate(s[d] ^ s[a], 8);
  s[c] = (s[c] + s[d]) | 0;
  s[b] = rotate(s[b] ^ s[c], 7);
}

function compress(cv: Words, block: Words, counter: number, length: number, flags: number): Words {
  const s = [...cv, ...IV.slice(0, 4), counter | 0, Math.floor(counter / 2 ** 32), length, flags];
  let m = block;
  for (let round = 0; round < 7; round++) {
    mix(s, 0, 4, 8, 12, m[0], m[1]);
    mix(s, 1, 5, 9, 13, m[2], m[3]);
    mix(s, 2, 6, 10, 14, m[4], m[5]);
    mix(s, 3, 7, 11, 15, m[6], m[7]);
    mix(s, 0, 5, 10, 15, m[8], m[9]);
    mix(s, 1, 6, 11, 12, m[10], m[11]);
    mix(s, 2, 7, 8, 13, m[12], m[13]);
    mix(s, 3, 4, 9, 14, m[14], m[15]);
    m = PERMUTATION.map((i) => m[i]);
  }
  return cv.map((_, i) => s[i] ^ s[i + 8]);
}

function wordsOf(p: Uint8Array): Words {
  const padded = new Uint8Array(BLOCK);
  padded.set(p);
  const view = new DataView(padded.buffer);
  return Array.from({ length: 16 }, (_, i) => view.getUint32(4 * i, true));
}

function bytesOf(cv: Words): Uint8Array {
  const view = new DataView(new ArrayBuffer(32));
  cv.forEach((w, i) => view.setUint32(4 * i, w, true));
  return new Uint8Array(view.buffer);
}

function chunk(p: Uint8Array, index: number, root: boolean): Words {
  let cv: Words = IV;
  for (let at = 0; at === 0 || at < p.length; at += BLOCK) {
    const last = at + BLOCK >= p.length;
    const flags = (at === 0 ? CHUNK_START : 0) | (last ? CHUNK_END | (root ? ROOT : 0) : 0);
    const block = p.subarray(at, at + BLOCK);
    cv = compress(cv, wordsOf(block), index, block.length, flags);
  }
  return cv;
}

/** Returns the number of bytes on the left of a tree of n bytes: the largest power of two of chunks below n. */
export function left(n: number): number {
  let l = CHUNK;
  while (2 * l < n) l *= 2;
  return l;
}

function tree(p: Uint8Array, index: number, root: boolean): Words {
  if (p.length <= CHUNK) return chunk(p, index, root);
  const l = left(p.length);
  const pair = [...tree(p.subarray(0, l), index, false), ...tree(p.subarray(l), index + l / CHUNK, false)];
  return compress(IV, pair, 0, BLOCK, PARENT | (root ? ROOT : 0));
}

/** Returns the chaining value of the bytes p, which begin at offset in their object, or its hash if they are all of it. */
export function subtree(p: Uint8Array, offset: number, root: boolean): Uint8Array {
  return bytesOf(tree(p, offset / CHUNK, root));
}

/** Returns the chaining value of a parent, or the hash of the object that it is the root of. */
export function parent(pair: Uint8Array, root: boolean): Uint8Array {
  return bytesOf(compress(IV, wordsOf(pair), 0, BLOCK, PARENT | (root ? ROOT : 0)));
}
