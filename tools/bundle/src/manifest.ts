// Manifests (protocols/manifest/FORMAT.md): a line, and a map of CBOR with a kind and entries.

const MAGIC = "allium-manifest/1\n";

export interface Entry {
  name: string;
  kind: number; // 0 a file, 1 a directory, 2 a link
  root: Uint8Array;
  size: number;
  executable: boolean;
  target: string;
}

export interface Node {
  index: boolean;
  entries: Entry[];
}

type Value = number | boolean | string | Uint8Array | Value[] | Map<number, Value>;

/** Decodes a manifest. It throws for anything else. */
export function decode(p: Uint8Array): Node {
  const text = new TextDecoder("utf-8", { fatal: true });
  if (text.decode(p.subarray(0, MAGIC.length)) !== MAGIC) throw new Error("it is no manifest");
  let at = MAGIC.length;

  const argument = (head: number): number => {
    const low = head & 31;
    if (low < 24) return low;
    const n = 2 ** (low - 24);
    if (low > 27 || at + n > p.length) throw new Error("a manifest has a malformed number");
    let v = 0;
    for (const end = at + n; at < end; at++) v = v * 256 + p[at];
    return v;
  };
  const value = (depth: number): Value => {
    if (depth > 3 || at >= p.length) throw new Error("a manifest is malformed");
    const head = p[at++];
    if (head === 0xf5) return true;
    const n = argument(head);
    switch (head >> 5) {
      case 0:
        return n;
      case 2:
      case 3: {
        if (at + n > p.length) throw new Error("a manifest is cut");
        const s = p.slice(at, at + n);
        at += n;
        return head >> 5 === 2 ? s : text.decode(s);
      }
      case 4: {
        const all: Value[] = [];
        for (let i = 0; i < n; i++) all.push(value(depth + 1));
        return all;
      }
      case 5: {
        const all = new Map<number, Value>();
        for (let i = 0; i < n; i++) all.set(value(depth + 1) as number, value(depth + 1));
        return all;
      }
    }
    throw new Error("a manifest has another type");
  };
  const top = value(0) as Map<number, Value>;
  if (!(top instanceof Map) || at !== p.length) throw new Error("a manifest is malformed");
  const kind = top.get(0);
  if (kind !== 1 && kind !== 2) throw new Error("a manifest has another kind");
  const entries = ((top.get(1) ?? []) as Map<number, Value>[]).map((e) => ({
    name: (e.get(0) ?? "") as string,
    kind: (e.get(1) ?? 0) as number,
    root: (e.get(2) ?? new Uint8Array(0)) as Uint8Array,
    size: (e.get(3) ?? 0) as number,
    executable: e.get(4) === true,
    target: (e.get(5) ?? "") as string,
  }));
  return { index: kind === 2, entries };
}
