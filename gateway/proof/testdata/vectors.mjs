// Runs verify.mjs under node: node vectors.mjs MODULE VECTORS ENGINE. It exits with 1 for what is wrong.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , path, vectors, engine] = process.argv;
if (engine === "javascript") globalThis.WebAssembly = undefined;
const m = await import(pathToFileURL(path));

let wrong = 0;
const check = (what, got, want) => {
  if (got !== want) { wrong++; console.error(`${what}: ${got}, want ${want}`); }
};
check("engine", m.engine, engine);

const pattern = (n) => Uint8Array.from({ length: n }, (_, i) => i % 251);
for (const { input_len, hash } of JSON.parse(readFileSync(vectors)).cases) {
  check(`${input_len} bytes`, m.hash(pattern(input_len)), hash.slice(0, 64));
}

// An encoding made here, by hash alone: one group, whose size is before it.
const stream = (...parts) => new ReadableStream({ start(to) { parts.forEach((p) => to.enqueue(p)); to.close(); } });
const size = (n) => { const b = new Uint8Array(8); new DataView(b.buffer).setBigUint64(0, BigInt(n), true); return b; };
const read = async (root, ...parts) => {
  let n = 0;
  try {
    for await (const p of m.verify(root, stream(...parts))) n += p.length;
  } catch (err) { return `${err.name} at ${err.at} after ${n}`; }
  return n;
};
const one = pattern(65536), root = "b3:" + m.hash(one);
check("whole", await read(root, size(65536), one), 65536);
for (let n = 0; n < 65536; n += n < 100 ? 1 : 1021) {
  check(`cut at ${n}`, await read(root, size(65536), one.subarray(0, n)), "VerifyError at 0 after 0");
  const bad = one.slice();
  bad[n] ^= 1 << (n % 8);
  check(`bit of ${n}`, await read(root, size(65536), bad), "VerifyError at 0 after 0");
}
check("too much", await read(root, size(65536), one, one.subarray(0, 1)), "VerifyError at 65536 after 65536");
check("another size", await read(root, size(65535), one), "VerifyError at 0 after 0");
check("no size", await read(root, size(1).subarray(0, 7)), "VerifyError at 0 after 0");

const big = pattern(16 << 20), begun = performance.now();
m.hash(big);
console.log(`${engine}: ${Math.round(big.length / 1000 / (performance.now() - begun))} MB/s`);
process.exit(wrong ? 1 : 0);
