// Reads the golden bundles of vectors.json and says for each whether it has what it should: node check.js vectors.json.

import { readFileSync } from "node:fs";
import { Cut, Lie, read } from "./bundle.js";

interface Vectors {
  root: string;
  bundles: Record<string, { bytes: string; entries: Record<string, string> }>;
  broken: { why: string; of: string; at: number; drop: number; put: string | null; cut: boolean }[];
}

const bytes = (base64: string | null): Uint8Array => Uint8Array.from(atob(base64 ?? ""), (c) => c.charCodeAt(0));
const v = JSON.parse(readFileSync(process.argv[2], "utf8")) as Vectors;
const root = Uint8Array.from(v.root.replace("b3:", "").match(/../g) ?? [], (h) => parseInt(h, 16));
let wrong = 0;
const check = (what: string, ok: boolean, why: unknown = ""): void => {
  console.log(`${ok ? "ok" : "WRONG"} ${what} ${ok ? "" : why}`);
  if (!ok) wrong++;
};

for (const [name, b] of Object.entries(v.bundles)) {
  const found = Object.fromEntries(read(root, bytes(b.bytes)));
  const sorted = (o: Record<string, string>): string => JSON.stringify(Object.entries(o).sort());
  check(name, sorted(found) === sorted(b.entries), sorted(found));
}
for (const b of v.broken) {
  const p = bytes(v.bundles[b.of].bytes);
  const changed = Uint8Array.from([...p.subarray(0, b.at), ...bytes(b.put), ...p.subarray(b.at + b.drop)]);
  let error: unknown = null;
  try {
    read(root, changed);
  } catch (e) {
    error = e;
  }
  check(b.why, b.cut ? error instanceof Cut : error instanceof Lie, error);
}
console.log(`${wrong} are wrong`);
process.exitCode = wrong === 0 ? 0 : 1;
