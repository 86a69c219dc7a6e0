// Verified bytes from an allium gateway that need not be trusted (docs/http.md).
//
//   import { verifiedFetch } from "https://gateway.example/verify.mjs";
//   const r = await verifiedFetch("https://gateway.example/o/b3:…");
//   img.src = URL.createObjectURL(await r.blob());
//
// The gateway sends the verified encoding: the object's size and then, in
// pre-order, parents (two chaining values) and groups of 64 KiB of its BLAKE3
// tree. Every group is hashed and compared with what the address says before a
// byte of it is handed on. Load this module from somewhere you trust: it is what
// does the checking.

const GROUP = 65536, CHUNK = 1024, PARENT = 64, BLOCK = 64;
const START = 1, END = 2, PARENT_FLAG = 4, ROOT = 8;
const TWO32 = 2 ** 32;
const IV = Uint32Array.of(0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19);

// The order of a block's words in each of seven rounds.
const ORDER = (() => {
  const permutation = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
  const order = new Uint8Array(7 * 16);
  for (let i = 0; i < 16; i++) order[i] = i;
  for (let i = 16; i < order.length; i++) order[i] = order[i - 16 - (i % 16) + permutation[i % 16]];
  return order;
})();

const m = new Uint32Array(16); // the block being compressed

// compress replaces cv at index at with the compression of the block in m.
function compress(cv, at, lo, hi, length, flags) {
  let s0 = cv[at], s1 = cv[at + 1], s2 = cv[at + 2], s3 = cv[at + 3], s4 = cv[at + 4], s5 = cv[at + 5], s6 = cv[at + 6], s7 = cv[at + 7];
  let s8 = IV[0], s9 = IV[1], s10 = IV[2], s11 = IV[3], s12 = lo | 0, s13 = hi | 0, s14 = length | 0, s15 = flags | 0;
  for (let r = 0; r < 112; r += 16) {
    let x = m[ORDER[r]], y = m[ORDER[r + 1]];
    s0 = (s0 + s4 + x) | 0; s12 ^= s0; s12 = (s12 >>> 16) | (s12 << 16); s8 = (s8 + s12) | 0; s4 ^= s8; s4 = (s4 >>> 12) | (s4 << 20);
    s0 = (s0 + s4 + y) | 0; s12 ^= s0; s12 = (s12 >>> 8) | (s12 << 24); s8 = (s8 + s12) | 0; s4 ^= s8; s4 = (s4 >>> 7) | (s4 << 25);
    x = m[ORDER[r + 2]]; y = m[ORDER[r + 3]];
    s1 = (s1 + s5 + x) | 0; s13 ^= s1; s13 = (s13 >>> 16) | (s13 << 16); s9 = (s9 + s13) | 0; s5 ^= s9; s5 = (s5 >>> 12) | (s5 << 20);
    s1 = (s1 + s5 + y) | 0; s13 ^= s1; s13 = (s13 >>> 8) | (s13 << 24); s9 = (s9 + s13) | 0; s5 ^= s9; s5 = (s5 >>> 7) | (s5 << 25);
    x = m[ORDER[r + 4]]; y = m[ORDER[r + 5]];
    s2 = (s2 + s6 + x) | 0; s14 ^= s2; s14 = (s14 >>> 16) | (s14 << 16); s10 = (s10 + s14) | 0; s6 ^= s10; s6 = (s6 >>> 12) | (s6 << 20);
    s2 = (s2 + s6 + y) | 0; s14 ^= s2; s14 = (s14 >>> 8) | (s14 << 24); s10 = (s10 + s14) | 0; s6 ^= s10; s6 = (s6 >>> 7) | (s6 << 25);
    x = m[ORDER[r + 6]]; y = m[ORDER[r + 7]];
    s3 = (s3 + s7 + x) | 0; s15 ^= s3; s15 = (s15 >>> 16) | (s15 << 16); s11 = (s11 + s15) | 0; s7 ^= s11; s7 = (s7 >>> 12) | (s7 << 20);
    s3 = (s3 + s7 + y) | 0; s15 ^= s3; s15 = (s15 >>> 8) | (s15 << 24); s11 = (s11 + s15) | 0; s7 ^= s11; s7 = (s7 >>> 7) | (s7 << 25);
    x = m[ORDER[r + 8]]; y = m[ORDER[r + 9]];
    s0 = (s0 + s5 + x) | 0; s15 ^= s0; s15 = (s15 >>> 16) | (s15 << 16); s10 = (s10 + s15) | 0; s5 ^= s10; s5 = (s5 >>> 12) | (s5 << 20);
    s0 = (s0 + s5 + y) | 0; s15 ^= s0; s15 = (s15 >>> 8) | (s15 << 24); s10 = (s10 + s15) | 0; s5 ^= s10; s5 = (s5 >>> 7) | (s5 << 25);
    x = m[ORDER[r + 10]]; y = m[ORDER[r + 11]];
    s1 = (s1 + s6 + x) | 0; s12 ^= s1; s12 = (s12 >>> 16) | (s12 << 16); s11 = (s11 + s12) | 0; s6 ^= s11; s6 = (s6 >>> 12) | (s6 << 20);
    s1 = (s1 + s6 + y) | 0; s12 ^= s1; s12 = (s12 >>> 8) | (s12 << 24); s11 = (s11 + s12) | 0; s6 ^= s11; s6 = (s6 >>> 7) | (s6 << 25);
    x = m[ORDER[r + 12]]; y = m[ORDER[r + 13]];
    s2 = (s2 + s7 + x) | 0; s13 ^= s2; s13 = (s13 >>> 16) | (s13 << 16); s8 = (s8 + s13) | 0; s7 ^= s8; s7 = (s7 >>> 12) | (s7 << 20);
    s2 = (s2 + s7 + y) | 0; s13 ^= s2; s13 = (s13 >>> 8) | (s13 << 24); s8 = (s8 + s13) | 0; s7 ^= s8; s7 = (s7 >>> 7) | (s7 << 25);
    x = m[ORDER[r + 14]]; y = m[ORDER[r + 15]];
    s3 = (s3 + s4 + x) | 0; s14 ^= s3; s14 = (s14 >>> 16) | (s14 << 16); s9 = (s9 + s14) | 0; s4 ^= s9; s4 = (s4 >>> 12) | (s4 << 20);
    s3 = (s3 + s4 + y) | 0; s14 ^= s3; s14 = (s14 >>> 8) | (s14 << 24); s9 = (s9 + s14) | 0; s4 ^= s9; s4 = (s4 >>> 7) | (s4 << 25);
  }
  cv[at] = s0 ^ s8; cv[at + 1] = s1 ^ s9; cv[at + 2] = s2 ^ s10; cv[at + 3] = s3 ^ s11;
  cv[at + 4] = s4 ^ s12; cv[at + 5] = s5 ^ s13; cv[at + 6] = s6 ^ s14; cv[at + 7] = s7 ^ s15;
}

// loadBlock puts bytes [from, to) of p, at most a block, into m.
function loadBlock(p, from, to) {
  if (to - from === BLOCK) {
    for (let i = 0; i < 16; i++, from += 4) m[i] = p[from] | (p[from + 1] << 8) | (p[from + 2] << 16) | (p[from + 3] << 24);
    return;
  }
  m.fill(0);
  for (let i = 0; from < to; i++, from++) m[i >> 2] |= p[from] << (8 * (i & 3));
}

// chunkCV puts the chaining value of the chunk p[from, to) into cv at index at.
function chunkCV(cv, at, p, from, to, index, root) {
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

// merge replaces the two chaining values at index at with their parent's.
function merge(cv, at, root) {
  for (let i = 0; i < 16; i++) m[i] = cv[at + i];
  cv.set(IV, at);
  compress(cv, at, 0, 0, BLOCK, PARENT_FLAG | root);
}

const stack = new Uint32Array(8 * 8); // of subtrees in one group

// groupCV leaves the chaining value of group number group in stack[0…8).
function groupCV(p, group, root) {
  const chunks = Math.max(1, Math.ceil(p.length / CHUNK));
  let depth = 0;
  for (let i = 0; i < chunks; i++) {
    chunkCV(stack, 8 * depth++, p, i * CHUNK, Math.min(p.length, (i + 1) * CHUNK), group * (GROUP / CHUNK) + i, chunks === 1 ? root : 0);
    if (i === chunks - 1) break;
    for (let n = i + 1; n % 2 === 0; n /= 2) merge(stack, 8 * (--depth - 1), 0);
  }
  while (depth > 1) merge(stack, 8 * (--depth - 1), depth === 1 ? root : 0);
}

/** hash returns the BLAKE3 hash of a Uint8Array as 64 hex digits. */
export function hash(p) {
  const groups = Math.max(1, Math.ceil(p.length / GROUP));
  const cvs = new Uint32Array(8 * 56);
  let depth = 0;
  for (let g = 0; g < groups; g++) {
    groupCV(p.subarray(g * GROUP, (g + 1) * GROUP), g, groups === 1 ? ROOT : 0);
    cvs.set(stack.subarray(0, 8), 8 * depth++);
    if (g === groups - 1) break;
    for (let n = g + 1; n % 2 === 0; n /= 2) merge(cvs, 8 * (--depth - 1), 0);
  }
  while (depth > 1) merge(cvs, 8 * (--depth - 1), depth === 1 ? ROOT : 0);
  const view = new DataView(new ArrayBuffer(32));
  for (let i = 0; i < 8; i++) view.setUint32(4 * i, cvs[i], true);
  return Array.from(new Uint8Array(view.buffer), (b) => b.toString(16).padStart(2, "0")).join("");
}

/** VerifyError: what arrived is not what the address says. */
export class VerifyError extends Error {
  constructor(message) {
    super(message);
    this.name = "VerifyError";
  }
}

// digest reads an address "b3:…" as eight words.
function digest(root) {
  const hex = /^b3:([0-9a-f]{64})$/.exec(root)?.[1];
  if (!hex) throw new TypeError(`${root} is not an address; it is b3: and 64 lowercase hex digits`);
  const view = new DataView(Uint8Array.from(hex.match(/../g), (h) => parseInt(h, 16)).buffer);
  return Uint32Array.from({ length: 8 }, (_, i) => view.getUint32(4 * i, true));
}

// input gives the bytes of a stream in pieces of the length wanted.
function input(stream) {
  const reader = stream.getReader();
  let have = new Uint8Array(0), at = 0;
  const more = async () => {
    const { value, done } = await reader.read();
    if (!done) { have = value; at = 0; }
    return !done;
  };
  return {
    async read(p) {
      for (let n = 0; n < p.length;) {
        if (at === have.length) {
          if (!(await more())) throw new VerifyError("the encoding ends too early");
          continue;
        }
        const part = have.subarray(at, at + p.length - n);
        p.set(part, n);
        n += part.length;
        at += part.length;
      }
    },
    async end() {
      while (at === have.length) if (!(await more())) return;
      throw new VerifyError("something follows the encoding");
    },
    cancel: (why) => reader.cancel(why),
  };
}

// resolve is the range [start, end) in an object of size bytes; what the claimed
// size leaves nothing of is not an answer to it.
function resolve({ start = 0, end }, size) {
  if (start < 0) start = Math.max(0, size + start);
  end = Math.min(end ?? size, size);
  if ((start > 0 && start >= size) || start > end) throw new VerifyError(`the encoding claims ${size} bytes, which leaves nothing of the range`);
  return { start, end };
}

/**
 * verify takes the encoding of a range of the object root as a ReadableStream
 * and returns a ReadableStream of the range's bytes, one proved group at a time.
 * It fails with a VerifyError before the first byte that is not proved. end is
 * exclusive; a start below 0 counts from the end, as claimed: such bytes are
 * the last ones only if the stream ends without an error.
 */
export function verify(root, encoded, range = {}) {
  return new ReadableStream(source(root, encoded, range), { highWaterMark: 0 });
}

function source(root, encoded, range) {
  const want = digest(root), from = input(encoded), pair = new Uint8Array(PARENT);
  const todo = []; // subtrees to come, last first: groups [lo, hi), their value
  let size, start, end, groups;
  const begin = async () => {
    const header = new Uint8Array(8);
    await from.read(header);
    const n = new DataView(header.buffer).getBigUint64(0, true);
    if (n > BigInt(Number.MAX_SAFE_INTEGER)) throw new VerifyError("the encoding claims more bytes than any object has");
    size = Number(n);
    ({ start, end } = resolve(range, size));
    groups = Math.max(1, Math.ceil(size / GROUP));
    todo.push({ lo: 0, hi: groups, cv: want });
  };
  // next is the next group's part of the range, undefined after the last.
  const next = async () => {
    if (size === undefined) await begin();
    while (todo.length > 0) {
      const { lo, hi, cv } = todo.pop();
      if (size > 0 && (lo * GROUP >= end || hi * GROUP <= start)) continue;
      const root = hi - lo === groups ? ROOT : 0;
      const p = hi - lo === 1 ? new Uint8Array(Math.min(GROUP, size - lo * GROUP)) : pair;
      await from.read(p);
      if (p === pair) {
        loadBlock(pair, 0, PARENT);
        stack.set(IV);
        compress(stack, 0, 0, 0, BLOCK, PARENT_FLAG | root);
      } else groupCV(p, lo, root);
      for (let i = 0; i < 8; i++) {
        if (stack[i] !== cv[i]) throw new VerifyError(`bytes from ${lo * GROUP} on do not match the address`);
      }
      if (p !== pair) return p.subarray(Math.max(0, start - lo * GROUP), Math.min(p.length, end - lo * GROUP));
      const view = new DataView(pair.buffer);
      const value = (k) => Uint32Array.from({ length: 8 }, (_, i) => view.getUint32(4 * (8 * k + i), true));
      let left = 1;
      while (left * 2 < hi - lo) left *= 2;
      todo.push({ lo: lo + left, hi, cv: value(1) }, { lo, hi: lo + left, cv: value(0) });
    }
    await from.end();
  };
  return {
    async pull(to) {
      try {
        const p = await next();
        if (p === undefined) return to.close();
        if (p.length > 0) return to.enqueue(p);
        await from.end(); // the empty object
        to.close();
      } catch (err) {
        from.cancel(err).catch(() => {}); // the answer's end is no news
        throw err;
      }
    },
    cancel: (why) => from.cancel(why),
  };
}

/**
 * verifiedFetch fetches an object from a gateway: url is …/o/b3:…. It resolves to
 * a Response whose body is proved as it is read. range is {start, end} of the
 * object's bytes; type becomes the Response's Content-Type, of which the gateway
 * says nothing that could be proved; init goes to fetch.
 */
export async function verifiedFetch(url, { range = {}, type = "application/octet-stream", ...init } = {}) {
  const target = new URL(url, globalThis.location?.href);
  const root = decodeURIComponent(target.pathname.split("/").pop());
  digest(root);
  target.search = "?format=bao";
  const { start = 0, end } = range;
  if (!(Number.isSafeInteger(start) && (end === undefined || (Number.isSafeInteger(end) && start >= 0 && end > start)))) throw new RangeError("range is {start, end} with 0 ≤ start < end, or a start below 0 alone");
  if (start !== 0 || end !== undefined) target.search += `&bytes=${start < 0 ? start : `${start}-${end === undefined ? "" : end - 1}`}`;
  const answer = await fetch(target, init);
  if (answer.status !== 200 || answer.headers.get("Content-Type") !== "application/vnd.allium.bao") {
    await answer.body?.cancel();
    throw new Error(`${target.host} answered ${answer.status} instead of a verified encoding`);
  }
  return new Response(verify(root, answer.body ?? new Response("").body, range), { headers: { "Content-Type": type } });
}
