// The workers that fetch and prove, two of them at most: one of today's cores proves more than most networks carry.

import {Gateway, Proving} from "./download";
import {Answer, Ask, Fault} from "./protocol";
import {scriptURL} from "./trusted";

/** Pool gives requests to workers in turn. */
export class Pool {
	private workers: Worker[];
	private waiting = new Map<number, (a: Answer) => void>();
	private asked = 0;
	private dead: Fault | undefined; // the answer to every request, when a worker does not run

	constructor(script: string, private root: string, private patience: () => number) {
		this.workers = Array.from({length: Math.min(2, navigator.hardwareConcurrency || 1)}, () => {
			const worker = new Worker(scriptURL(script) as string);
			worker.onmessage = ({data}: MessageEvent<Answer>) => this.waiting.get(data.id)?.(data);
			worker.onerror = () => this.broken();
			return worker;
		});
	}

	/** broken ends all requests, now and later, since a worker does not run. */
	private broken(): void {
		this.dead = {
			kind: "failure", at: 0, said: "the browser does not run the page's worker: load the page again", retry: 0,
		};
		for (const [id, take] of [...this.waiting]) {
			take({id, fault: this.dead});
		}
	}

	/** prove implements Proving. */
	prove: Proving = (g: Gateway, start, end, stop, bytes) => {
		const id = this.asked++, worker = this.workers[id % this.workers.length]!;
		const ask: Ask = {id, object: g.object, root: this.root, start, end, patience: this.patience()};
		return new Promise((resolve) => {
			const cancel = (): void => worker.postMessage({id, cancel: true});
			this.waiting.set(id, (a) => {
				if (a.bytes) {
					bytes(a.at!, a.bytes);
					return;
				}
				this.waiting.delete(id);
				stop.removeEventListener("abort", cancel);
				resolve(a.fault ?? a.size!);
			});
			stop.addEventListener("abort", cancel);
			if (this.dead) {
				this.waiting.get(id)!({id, fault: this.dead});
			} else {
				worker.postMessage(ask);
			}
		});
	};
}
