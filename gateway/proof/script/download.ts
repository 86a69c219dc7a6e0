// A download asks gateways for spans of an object, several at once, and writes what is proved in order. A gateway that
// lies is not asked again, and the next one goes on at the first byte that is missing.

import {GROUP} from "./size";
import {Fault} from "./protocol";

const LANES = 4; // spans that are asked for at once
const MAX_SPAN = 8 << 20, MIN_SPAN = 4 * GROUP;
const WINDOW = LANES * MAX_SPAN; // the most bytes of the object that wait to be written
const FAILURES = 4; // in a row, after which a gateway is not asked again

/** Gateway is one that the link names, or that of the page. */
export interface Gateway {
	name: string;
	object: string; // the URL of the object there
	proved: number; // bytes
	busy: number; // requests that run
	failures: number; // in a row
	rest: number; // when it may be asked again, in milliseconds
	out: string; // why it is asked no more; "" for one that is asked
}

/** Sink takes proved bytes in order. */
export interface Sink {
	write(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
	close(): Promise<void>;
	abort(why: string): Promise<void>;
}

/** Proving asks one gateway for a range, end exclusive, or for the size with start -1. It returns the size, or what is
 * wrong. */
export type Proving = (g: Gateway, start: number, end: number | undefined, stop: AbortSignal,
	bytes: (at: number, bytes: Uint8Array<ArrayBuffer>) => void) => Promise<number | Fault>;

/** Download is one. */
export class Download {
	size = -1; // -1 until it is proved
	written = 0;
	private next = 0; // the first byte that nobody was asked for
	private pieces = new Map<number, Uint8Array<ArrayBuffer>>(); // what waits to be written, by place
	private writing: Promise<void> | null = null;
	private waiting: (() => void)[] = []; // lanes that wait for the window
	private stop = new AbortController();
	private stopped = new Promise<never>((_, reject) => {
		const {signal} = this.stop;
		signal.addEventListener("abort", () => reject(signal.reason as Error));
	});

	constructor(
		private gateways: Gateway[], private prove: Proving,
		private told: (g: Gateway, fault: Fault) => void,
	) {
		this.stopped.catch(() => {}); // whoever waits sees it
	}

	/** unlessStopped waits for what a sink may never do: a browser that waits for its user takes no bytes. */
	private unlessStopped<T>(p: Promise<T>): Promise<T> {
		return Promise.race([p, this.stopped]);
	}

	/** cancel ends the download. */
	cancel(why: string): void {
		if (!this.stop.signal.aborted) {
			this.stop.abort(new Error(why));
			this.wake();
		}
	}

	private wake(): void {
		this.waiting.splice(0).forEach((go) => go());
	}

	/** measure proves the size, by the last group. */
	async measure(): Promise<number> {
		while (this.size < 0) {
			const g = await this.pick();
			const got = await this.ask(g, -1, undefined);
			if (typeof got === "number") {
				this.size = got;
			}
		}
		return this.size;
	}

	/** run writes the object to sink. */
	async run(sink: Sink): Promise<void> {
		try {
			const size = await this.measure();
			const share = Math.ceil(size / LANES / GROUP) * GROUP;
			const span = Math.min(MAX_SPAN, Math.max(MIN_SPAN, share));
			const lanes = Array.from({length: LANES}, () => this.lane(sink, span));
			await this.unlessStopped(Promise.all(lanes.map((l) => l.catch((err: Error) => {
				this.cancel(err.message);
				throw err;
			}))));
			this.stop.signal.throwIfAborted();
			if (this.written !== size) {
				throw new Error("The page has a fault: not every byte was written.");
			}
			await this.unlessStopped(sink.close());
		} catch (err) {
			this.cancel((err as Error).message);
			await sink.abort((err as Error).message).catch(() => {}); // the first error is the one that counts
			throw err;
		}
	}

	/** lane proves one span after the other. */
	private async lane(sink: Sink, span: number): Promise<void> {
		while (this.next < this.size) {
			const start = this.next, end = this.next = Math.min(this.size, start + span);
			while (end > this.written + WINDOW) {
				await new Promise<void>((go) => this.waiting.push(go));
				this.stop.signal.throwIfAborted();
			}
			for (let at = start; at < end;) {
				const g = await this.pick();
				const got = await this.ask(g, at, end, (place, bytes) => {
					at = place + bytes.length;
					this.pieces.set(place, bytes);
					this.flush(sink);
				});
				if (typeof got === "number" && at < end) {
					throw new Error("The page has a fault: a proof ended before its bytes did.");
				}
			}
			await this.writing;
		}
	}

	/** flush writes the pieces that follow what is written. One call at a time does that. */
	private flush(sink: Sink): void {
		this.writing ??= (async () => {
			for (let p = this.pieces.get(this.written); p; p = this.pieces.get(this.written)) {
				this.pieces.delete(this.written);
				const n = p.length; // the sink may take the memory
				this.stop.signal.throwIfAborted();
				await sink.write(p);
				this.written += n;
				this.wake();
			}
		})().catch((err: Error) => this.cancel(err.message)).finally(() => this.writing = null);
	}

	/** ask asks a gateway that pick returned, and keeps account of it. */
	private async ask(
		g: Gateway, start: number, end: number | undefined,
		take: (at: number, bytes: Uint8Array<ArrayBuffer>) => void = () => {},
	): Promise<number | Fault> {
		let got = await this.prove(g, start, end, this.stop.signal, (at, bytes) => {
			g.proved += bytes.length;
			g.failures = 0;
			take(at, bytes);
		}).finally(() => g.busy--);
		this.stop.signal.throwIfAborted();
		if (typeof got === "number" && this.size >= 0 && got !== this.size) {
			const said = `it says that the object has ${got} bytes, and it has ${this.size}`;
			got = {kind: "lie", at: start, said, retry: 0};
		}
		if (typeof got === "number") {
			g.failures = 0;
			return got;
		}
		g.failures++;
		g.rest = Date.now() + Math.min(30_000, Math.max(got.retry, 250 * 2 ** g.failures));
		if (!g.out && (got.kind !== "failure" || g.failures >= FAILURES)) {
			g.out = got.said;
		}
		this.told(g, got);
		return got;
	}

	/** pick returns the gateway to ask next: of those that may be asked, the one that does least, which counts
	 * as busy from now on. It waits if all of them rest. */
	private async pick(): Promise<Gateway> {
		for (;;) {
			this.stop.signal.throwIfAborted();
			const left = this.gateways.filter((g) => !g.out);
			if (left.length === 0) {
				const one = this.gateways.length === 1;
				throw new Error(one ? "The gateway proved no more." : "No gateway proved the rest.");
			}
			const now = Date.now(), ready = left.filter((g) => g.rest <= now);
			if (ready.length > 0) {
				const [g] = ready.sort((a, b) => a.busy - b.busy || a.failures - b.failures) as [Gateway];
				g.busy++;
				return g;
			}
			const wait = Math.min(...left.map((g) => g.rest)) - now;
			await new Promise((go) => setTimeout(go, Math.min(wait, 1000)));
		}
	}
}
