// The verified encoding (docs/http.md, "Verified bytes"): an object's size and then, in pre-order, parents of two
// chaining values and groups of 64 KiB of its BLAKE3 tree. Every item is hashed and compared with what the address
// says before a byte of it is handed on.

import {PARENT, ROOT, groupCV, parentCV} from "./blake3";
import {GROUP} from "./size";

/** A VerifyError says that what arrived is not what the address says. at is the first byte of the object that it is
 * about. */
export class VerifyError extends Error {
	at: number;
	constructor(message: string, at = 0) {
		super(message);
		this.name = "VerifyError";
		this.at = at;
	}
}

/** Range is a part of an object: end is exclusive, and a start below 0 counts from the end. */
export interface Range {
	start?: number;
	end?: number;
}

/** digest reads an address "b3:…" as eight words. */
export function digest(root: string): Uint32Array {
	const hex = /^b3:([0-9a-f]{64})$/.exec(root)?.[1];
	if (!hex) {
		throw new TypeError(`${root} is not an address; it is b3: and 64 lowercase hex digits`);
	}
	const view = new DataView(Uint8Array.from(hex.match(/../g)!, (h) => parseInt(h, 16)).buffer);
	return Uint32Array.from({length: 8}, (_, i) => view.getUint32(4 * i, true));
}

const PIECE = 1 << 20; // bytes that are read at once, at most

/** pieces returns a function that returns the next bytes of a stream, and undefined at its end. What it returned before
 * is overwritten, where the stream reads into memory that it is given: that of a request does. */
function pieces(
	stream: ReadableStream<Uint8Array>,
): [ReadableStreamGenericReader, () => Promise<Uint8Array | undefined>] {
	try {
		const reader = stream.getReader({mode: "byob"});
		let memory = new ArrayBuffer(PIECE);
		return [reader, async () => {
			const {value, done} = await reader.read(new Uint8Array(memory));
			memory = value?.buffer ?? memory;
			return done ? undefined : value;
		}];
	} catch {
		const reader = stream.getReader();
		return [reader, async () => (await reader.read()).value];
	}
}

/** Input gives the bytes of a stream in pieces of the length wanted. */
class Input {
	private reader: ReadableStreamGenericReader;
	private piece: () => Promise<Uint8Array | undefined>;
	private have = new Uint8Array(0);
	private at = 0;

	constructor(stream: ReadableStream<Uint8Array>) {
		[this.reader, this.piece] = pieces(stream);
	}

	private async more(): Promise<boolean> {
		const piece = await this.piece();
		if (piece) {
			this.have = piece as Uint8Array<ArrayBuffer>;
			this.at = 0;
		}
		return piece !== undefined;
	}

	/** read fills p. place is what it is about, for the error. */
	async read(p: Uint8Array, place: number): Promise<void> {
		for (let n = 0; n < p.length;) {
			if (this.at === this.have.length) {
				if (!(await this.more())) {
					throw new VerifyError(`the encoding ends before byte ${place} is proved`, place);
				}
				continue;
			}
			const part = this.have.subarray(this.at, this.at + p.length - n);
			p.set(part, n);
			n += part.length;
			this.at += part.length;
		}
	}

	async end(place: number): Promise<void> {
		while (this.at === this.have.length) {
			if (!(await this.more())) {
				return;
			}
		}
		throw new VerifyError(`something follows the encoding, which ends at byte ${place}`, place);
	}

	async cancel(why: unknown): Promise<void> {
		return this.reader.cancel(why);
	}
}

/** resolve returns the range [start, end) in an object of size bytes. What the claimed size leaves nothing of is no
 * answer to it. */
function resolve({start = 0, end}: Range, size: number): {start: number; end: number} {
	const from = start < 0 ? Math.max(0, size + start) : start, to = Math.min(end ?? size, size);
	if ((from > 0 && from >= size) || from > to) {
		throw new VerifyError(`the encoding claims ${size} bytes, which leaves nothing of the range`);
	}
	return {start: from, end: to};
}

/** Subtree is one to come: groups [lo, hi), with their value. */
interface Subtree {
	lo: number;
	hi: number;
	cv: Uint32Array;
}

/** Walk goes through the encoding of a range of the object root in pre-order. */
export class Walk {
	size = -1; // of the object: claimed, and proved with its last group; -1: not read
	private start = 0;
	private end = 0;
	private groups = 0;
	private todo: Subtree[] = []; // the last is the next
	private pair = new Uint8Array(PARENT);
	private from: Input;
	private want: Uint32Array;

	constructor(root: string, encoded: ReadableStream<Uint8Array>, private range: Range) {
		this.want = digest(root);
		this.from = new Input(encoded);
	}

	/** cancel says that nobody reads on. */
	cancel(why: unknown): Promise<void> {
		return this.from.cancel(why);
	}

	private async begin(): Promise<void> {
		const header = new Uint8Array(8);
		await this.from.read(header, Math.max(0, this.range.start ?? 0));
		const n = new DataView(header.buffer).getBigUint64(0, true);
		if (n > BigInt(Number.MAX_SAFE_INTEGER)) {
			throw new VerifyError("the encoding claims more bytes than any object has");
		}
		({start: this.start, end: this.end} = resolve(this.range, Number(n)));
		this.size = Number(n);
		this.groups = Math.max(1, Math.ceil(this.size / GROUP));
		this.todo.push({lo: 0, hi: this.groups, cv: this.want});
	}

	/** next returns the next group's part of the range when it is proved, and undefined after the last. The group lies in
	 * the memory of its length that memory gives. */
	async next(memory: (length: number) => Uint8Array): Promise<Uint8Array | undefined> {
		if (this.size < 0) {
			await this.begin();
		}
		for (let t = this.todo.pop(); t; t = this.todo.pop()) {
			const first = t.lo * GROUP;
			if (this.size > 0 && (first >= this.end || t.hi * GROUP <= this.start)) {
				continue;
			}
			const place = Math.max(first, this.start), root = t.hi - t.lo === this.groups ? ROOT : 0;
			const leaf = t.hi - t.lo === 1;
			const p = leaf ? memory(Math.min(GROUP, this.size - first)) : this.pair;
			await this.from.read(p, place);
			const got = leaf ? groupCV(p, t.lo, root) : parentCV(p, root);
			if (got.some((word, i) => word !== t.cv[i])) {
				const last = Math.max(place, Math.min(t.hi * GROUP, this.end) - 1);
				throw new VerifyError(`bytes ${place} to ${last} do not match the address`, place);
			}
			if (leaf) {
				return p.subarray(Math.max(0, this.start - first), Math.min(p.length, this.end - first));
			}
			this.descend(t);
		}
		await this.from.end(this.end);
		return undefined;
	}

	/** descend puts the two children of a subtree before what is to come. */
	private descend({lo, hi}: Subtree): void {
		const view = new DataView(this.pair.buffer);
		const value = (k: number): Uint32Array =>
			Uint32Array.from({length: 8}, (_, i) => view.getUint32(4 * (8 * k + i), true));
		let left = 1;
		while (left * 2 < hi - lo) {
			left *= 2;
		}
		this.todo.push({lo: lo + left, hi, cv: value(1)}, {lo, hi: lo + left, cv: value(0)});
	}
}

/** verify takes the encoding of a range of the object root as a stream, and returns a stream of the range's bytes, one
 * proved group at a time. It fails with a VerifyError before the first byte that is not proved. Bytes of a start below
 * 0 are the last ones only if the stream ends without an error. */
export function verify(
	root: string, encoded: ReadableStream<Uint8Array>, range: Range = {},
): ReadableStream<Uint8Array> {
	const walk = new Walk(root, encoded, range);
	return new ReadableStream<Uint8Array>({
		async pull(to): Promise<void> {
			try {
				for (;;) { // once, or twice for the empty object
					const p = await walk.next((length) => new Uint8Array(length));
					if (p === undefined) {
						to.close();
						return;
					}
					if (p.length > 0) {
						to.enqueue(p);
						return;
					}
				}
			} catch (err) {
				walk.cancel(err).catch(() => {}); // the answer's end is no news
				throw err;
			}
		},
		cancel: (why) => walk.cancel(why),
	}, {highWaterMark: 0});
}

/** MEDIA is the media type of a verified encoding. */
export const MEDIA = "application/vnd.allium.bao";

/** query returns the query that asks for the encoding of a range. */
export function query({start = 0, end}: Range): string {
	if (start === 0 && end === undefined) {
		return "?format=bao";
	}
	return "?format=bao&bytes=" + (start < 0 ? start : `${start}-${end === undefined ? "" : end - 1}`);
}
