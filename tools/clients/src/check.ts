// What each client proves: bytes of many sizes around a chunk group come back as they went, and a pin shows in the list.

export interface Node {
  post(bytes: Uint8Array<ArrayBuffer>): Promise<string>; // returns the address
  put(address: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  get(address: string): Promise<Uint8Array>;
  browse(path: string): Promise<Uint8Array>;
  pin(address: string): Promise<void>;
  pins(): Promise<string[]>;
}

declare const process: { argv: string[]; exit(code: number): never };

// args returns the URLs of the gateway and of the admin listener, a capability, and the seed of the sizes.
export function args(): { gateway: string; admin: string; token: string; seed: number } {
  const [, , gateway, admin, token, seed] = process.argv;
  return { gateway: gateway!, admin: admin!, token: token!, seed: Number(seed) };
}

export async function check(node: Node, seed: number): Promise<void> {
  const group = 64 * 1024;
  const sizes = [0, 1, group - 1, group, group + 1, 3 * group + 7];
  let state = seed >>> 0 || 1;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0);
  for (let i = 0; i < 10; i++) sizes.push(group * (1 + (next() % 3)) + (next() % 33) - 16);
  for (const size of sizes) {
    const bytes = new Uint8Array(size);
    for (let i = 0; i < size; i++) bytes[i] = next() >>> 24;
    const address = await node.post(bytes);
    await node.put(address, bytes);
    for (const back of [await node.get(address), await node.browse(address)]) {
      if (back.length !== size || back.some((b, i) => b !== bytes[i])) throw new Error(`${size} bytes came back as ${back.length} others`);
    }
    await node.pin(address);
    if (!(await node.pins()).includes(address)) throw new Error(`the pin of ${address} is not in the list`);
  }
  console.log(`ok ${sizes.length}`);
}

// must returns the data of a call, or throws what the node says.
export function must<T>(result: { data?: T; error?: unknown }): T {
  if (result.error !== undefined || result.data === undefined) throw new Error(JSON.stringify(result.error));
  return result.data;
}
