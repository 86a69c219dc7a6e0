// A worker fetches verified encodings and proves them. Nothing leaves it that is not proved.

import {MEDIA, VerifyError, Walk, query} from "./bao";
import {Answer, Ask, Cancel, Fault} from "./protocol";

const BATCH = 4 << 20; // bytes that go to the page at once, at most

const running = new Map<number, AbortController>();

/** say sends an answer to the page, and gives the page the memory of its bytes. */
function say(answer: Answer): void {
	(self as unknown as Worker).postMessage(answer, answer.bytes ? [answer.bytes.buffer] : []);
}

/** Refused is an answer that is no encoding. */
class Refused extends Error {
	constructor(readonly fault: Omit<Fault, "at">) {
		super(fault.said);
	}
}

/** open returns the encoding that a gateway sends. */
async function open(ask: Ask, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
	const answer = await fetch(ask.object + query({start: ask.start, end: ask.end}), {
		signal, credentials: "omit", referrerPolicy: "no-referrer", redirect: "error", cache: "no-store",
	});
	if (answer.status === 200 && answer.headers.get("Content-Type") === MEDIA) {
		return answer.body ?? new Response("").body!;
	}
	void answer.body?.cancel();
	if (answer.status === 200) {
		const type = (answer.headers.get("Content-Type") ?? "nothing").slice(0, 60);
		const of = ask.start < 0 ? "the size" : `bytes from ${ask.start} on`;
		throw new Refused({kind: "lie", said: `it sent ${type} instead of a proof of ${of}`, retry: 0});
	}
	const again = answer.status === 408 || answer.status === 429 || answer.status >= 500;
	const reason = answer.headers.get("X-Reason")?.replace(/_/g, " ").slice(0, 40);
	throw new Refused({
		kind: again ? "failure" : "refusal", said: `it answered ${answer.status}${reason ? ", " + reason : ""}`,
		retry: 1000 * (Number(answer.headers.get("Retry-After")) || 0),
	});
}

/** work serves one request. */
async function work(ask: Ask): Promise<void> {
	const stop = new AbortController();
	running.set(ask.id, stop);
	let at = Math.max(0, ask.start), batch = new Uint8Array(0), filled = 0, stalled = false;
	let timer = 0;
	const wait = (): void => {
		clearTimeout(timer);
		timer = setTimeout(() => {
			stalled = true;
			stop.abort();
		}, ask.patience);
	};
	const flush = (): void => {
		if (filled > 0 && ask.start >= 0) {
			say({id: ask.id, at, bytes: filled === batch.length ? batch : batch.slice(0, filled)});
			at += filled;
		}
		filled = 0;
	};
	/** memory gives a group its place in the batch. Spans begin with a group, so that all of it is wanted. */
	const memory = (length: number): Uint8Array => {
		if (filled + length > batch.length) {
			flush();
			batch = new Uint8Array(Math.max(length, Math.min(BATCH, (ask.end ?? 0) - at)));
		}
		return batch.subarray(filled, filled + length);
	};
	let walk: Walk | undefined;
	try {
		wait();
		walk = new Walk(ask.root, await open(ask, stop.signal), ask);
		for (let p = await walk.next(memory); p; p = await walk.next(memory)) {
			wait();
			filled += p.length;
		}
		flush();
		say({id: ask.id, size: walk.size});
	} catch (err) {
		walk?.cancel(err).catch(() => {}); // the answer's end is no news
		flush();
		say({id: ask.id, fault: faultOf(err, at, stalled, ask.patience)});
	} finally {
		clearTimeout(timer);
		running.delete(ask.id);
	}
}

/** faultOf says what an error means. */
function faultOf(err: unknown, at: number, stalled: boolean, patience: number): Fault {
	if (err instanceof VerifyError) {
		return {kind: "lie", at, said: err.message, retry: 0};
	}
	if (err instanceof Refused) {
		return {...err.fault, at};
	}
	const said = stalled ? `it proved nothing for ${Math.ceil(patience / 1000)} s` :
		"it cannot be reached, lets no other page read, or broke off";
	return {kind: "failure", at, said, retry: 0};
}

self.onmessage = ({data}: MessageEvent<Ask | Cancel>): void => {
	if ("cancel" in data) {
		running.get(data.id)?.abort();
	} else {
		void work(data);
	}
};
