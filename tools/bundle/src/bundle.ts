// A reader of bundles (gateway/verified/bundle/FORMAT.md).

import { left, parent, subtree } from "./blake3.js";
import { decode } from "./manifest.js";

const MAGIC = "allium-bundle/1\n";
const GROUP = 65536, MOST = 1 << 20, ADDRESS = 32, PARENT = 64;
const END = 0, OBJECT = 1, LEFT_OUT = 2;

/** A bundle that ended before its end. */
export class Cut extends Error {}

/** A bundle that is none, or that does not prove what it has. */
export class Lie extends Error {}

export function hex(p: Uint8Array): string {
  return Array.from(p, (b) => b.toString(16).padStart(2, "0")).join("");
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((v, i) => v === b[i]);
}

class Reader {
  private at = 0;
  private number = 0;

  constructor(private readonly p: Uint8Array, private readonly root: Uint8Array) {
    const magic = this.take(MAGIC.length);
    if (String.fromCharCode(...magic) !== MAGIC || !same(this.take(ADDRESS), root)) throw new Lie("another beginning");
  }

  private take(n: number): Uint8Array {
    if (this.at + n > this.p.length) throw new Cut("the bundle is cut");
    this.at += n;
    return this.p.subarray(this.at - n, this.at);
  }

  private record(): { kind: number; number: number; root: Uint8Array } {
    const head = this.take(5);
    const number = new DataView(head.buffer, head.byteOffset).getUint32(1, true);
    return { kind: head[0], number, root: this.take(ADDRESS) };
  }

  /** Returns the object that is due, or null if it is left out. A size of -1 is unknown. */
  object(root: Uint8Array, size: number): Uint8Array | null {
    const r = this.record();
    if ((r.kind !== OBJECT && r.kind !== LEFT_OUT) || r.number !== this.number || !same(r.root, root)) {
      throw new Lie(`object ${this.number} is due, and record ${r.number} of kind ${r.kind} comes`);
    }
    this.number++;
    if (r.kind === LEFT_OUT) return null;
    const head = this.take(8);
    const n = new DataView(head.buffer, head.byteOffset).getBigUint64(0, true);
    if (n > BigInt(MOST) || (size >= 0 && n !== BigInt(size))) throw new Lie(`an object of ${n} bytes`);
    const whole = new Uint8Array(Number(n));
    this.prove(whole, 0, whole.length, root, true);
    return whole;
  }

  /** Reads the bytes [from, to) of an object, whose hash or chaining value is cv. */
  private prove(whole: Uint8Array, from: number, to: number, cv: Uint8Array, top: boolean): void {
    if (to - from <= GROUP) {
      const group = this.take(to - from);
      if (!same(subtree(group, from, top), cv)) throw new Lie("a group is false");
      whole.set(group, from);
      return;
    }
    const pair = this.take(PARENT);
    if (!same(parent(pair, top), cv)) throw new Lie("a parent is false");
    const middle = from + left(to - from);
    this.prove(whole, from, middle, pair.subarray(0, 32), false);
    this.prove(whole, middle, to, pair.subarray(32), false);
  }

  end(): void {
    const r = this.record();
    if (r.kind !== END || r.number !== this.number || !same(r.root, this.root)) throw new Lie("another end");
    if (this.at !== this.p.length) throw new Lie("bytes follow the end");
  }
}

/** Reads a whole bundle and returns a line for each entry, by its path. */
export function read(root: Uint8Array, bundle: Uint8Array): Map<string, string> {
  const r = new Reader(bundle, root);
  const found = new Map<string, string>();
  const node = (root: Uint8Array, size: number, path: string): void => {
    const p = r.object(root, size);
    if (p === null) throw new Error("a manifest is left out");
    const n = decode(p);
    for (const e of n.entries) {
      if (n.index) {
        node(e.root, e.size, path);
        continue;
      }
      const below = path === "" ? e.name : path + "/" + e.name;
      if (e.kind === 2) {
        found.set(below, "link " + e.target);
      } else if (e.kind === 1) {
        found.set(below, "directory");
        node(e.root, e.size, below);
      } else {
        const file = r.object(e.root, e.size);
        found.set(below, file === null ? "left out" : `file ${e.size} ${hex(subtree(file, 0, true))} ${e.executable}`);
      }
    }
  };
  node(root, -1, "");
  r.end();
  return found;
}
