// The node: its state, its events, and what a token allows to change.

import type { Event, Gate, Overview, Problem } from "./types";

/** Failure is an error that says what happened in a sentence. */
export class Failure extends Error {
	constructor(message: string, readonly reason: string) {
		super(message);
	}
}

/** request asks the node for JSON. */
export async function request<T>(path: string, init: RequestInit = {}): Promise<T> {
	let answer: Response;
	try {
		answer = await fetch(path, { ...init, signal: AbortSignal.timeout(patience) });
	} catch {
		throw new Failure("The node does not answer.", "away");
	}
	const said: unknown = await answer.json().catch(() => ({}));
	if (!answer.ok) {
		const problem = said as Partial<Problem>;
		throw new Failure(problem.detail ?? "The node answers " + answer.status + ".", problem.reason ?? "");
	}
	return said as T;
}

/** change posts a mutation with a token. Repeating one by mistake changes nothing. */
export function change<T>(path: string, body: object, token: string): Promise<T> {
	const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
	return request<T>(path, {
		method: "POST", body: JSON.stringify(body),
		headers: { "Content-Type": "application/json", Authorization: "Bearer " + token, "Idempotency-Key": key },
	});
}

const patience = 15_000; // milliseconds for an answer
const every = 5_000; // milliseconds between two looks at the part that is shown
const least = 1_000; // milliseconds between two looks, however many events there are
const longest = 10_000; // milliseconds between two tries to reach a node that does not answer
const maxFeed = 30; // events that the page remembers
const maxRates = 60; // looks whose rates are drawn

/** Rate is what passed between two looks, in bytes per second. */
export interface Rate {
	in: number;
	out: number;
}

/** State is what the page shows. */
export interface State {
	overview: Overview | null; // null: not yet
	feed: Event[]; // the latest first
	lost: number; // events that the page lost
	rates: Rate[]; // the oldest first
	problem: string; // why the last look failed; empty: it did not
	live: boolean; // events come
}

/** Watch follows a node. It looks at what is shown, and stops while nobody sees the page. */
export class Watch {
	state: State = { overview: null, feed: [], lost: 0, rates: [], problem: "", live: false };
	private part = "";
	private stream: EventSource | null = null;
	private streamAfter = 0; // when the stream may be opened again
	private failures = 0;
	private wanted = false; // a look before its time
	private looking = false;
	private last = 0; // when the last look began
	private timer = 0;

	constructor(private readonly changed: (s: State) => void) {
		document.addEventListener("visibilitychange", () => this.seen());
	}

	/** show says which part of the state is looked at. */
	show(part: string): void {
		if (this.part !== part) {
			this.part = part;
			this.look();
		}
	}

	/** look has the state looked at soon. */
	look(): void {
		this.wanted = true;
		this.plan(Math.max(0, this.last + least - Date.now()));
	}

	private seen(): void {
		if (document.hidden) {
			clearTimeout(this.timer);
			this.close();
		} else {
			this.look();
		}
	}

	private plan(after: number): void {
		if (this.looking || document.hidden) {
			return;
		}
		clearTimeout(this.timer);
		this.timer = window.setTimeout(() => void this.now(), after);
	}

	private set(part: Partial<State>): void {
		this.state = { ...this.state, ...part };
		this.changed(this.state);
	}

	// now looks once: at everything the first time and after the node was away, then at the part that is shown.
	private async now(): Promise<void> {
		this.looking = true;
		this.wanted = false;
		this.last = Date.now();
		const whole = !this.state.overview || this.failures > 0;
		try {
			this.open(); // before the look, so that nothing is missed in between
			const got = await request<Overview>("/api/v1/overview" + (whole ? "" : "?parts=" + this.part));
			this.failures = 0;
			this.set({
				overview: whole ? got : { ...this.state.overview, ...got }, problem: "", rates: this.measured(got),
			});
		} catch (err) {
			this.failures++;
			this.close();
			this.set({ problem: err instanceof Error ? err.message : String(err) });
		}
		this.looking = false;
		const wait = this.failures > 0 ? Math.min(longest, 500 * 2 ** this.failures) : this.wanted ? least : every;
		this.plan(wait);
	}

	// measured returns the rates with the one since the last look.
	private measured(got: Overview): Rate[] {
		const before = this.state.overview;
		if (!got.now || !before?.now) {
			return this.state.rates;
		}
		const seconds = (got.now.process.uptime_ms - before.now.process.uptime_ms) / 1000;
		if (seconds <= 0) {
			return []; // the node was started again
		}
		const rate = (a: number, b: number): number => Math.max(0, b - a) / seconds;
		return [...this.state.rates, {
			in: rate(before.now.traffic.in, got.now.traffic.in), out: rate(before.now.traffic.out, got.now.traffic.out),
		}].slice(-maxRates);
	}

	private open(): void {
		if (this.stream || Date.now() < this.streamAfter) {
			return;
		}
		const stream = this.stream = new EventSource("/api/v1/events");
		stream.onopen = () => this.set({ live: true });
		stream.onerror = () => {
			this.close();
			this.streamAfter = Date.now() + longest; // all places for readers may be taken
			this.look();
		};
		stream.addEventListener("end", () => {
			this.close();
			this.look();
		});
		for (const topic of ["readiness", "peers", "pins", "transfers", "names", "durability", "reloads", "lagged"]) {
			stream.addEventListener(topic, (e) => this.take(JSON.parse((e as MessageEvent<string>).data) as Event));
		}
	}

	private close(): void {
		this.stream?.close();
		this.stream = null;
		if (this.state.live) {
			this.set({ live: false });
		}
	}

	// take takes up an event.
	private take(e: Event): void {
		let overview = this.state.overview;
		if (e.gate && overview) { // shown at once
			const changed: Gate = e.gate;
			const gates = overview.ready.gates.map((g) => g.name === changed.name ? changed : g);
			overview = { ...overview, ready: { ...overview.ready, gates, ready: gates.every((g) => g.ready) } };
		}
		this.set({
			overview, feed: [e, ...this.state.feed].slice(0, maxFeed), lost: this.state.lost + (e.lost ?? 0),
		});
		this.look();
	}
}
