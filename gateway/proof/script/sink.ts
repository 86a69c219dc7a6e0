// Where proved bytes go: to a file that the visitor chose, to the browser's downloads, or to memory.

import {Sink} from "./download";
import {Port} from "./save";
import {scriptURL} from "./trusted";

/** MOST_IN_MEMORY is the largest object that is held in memory, in bytes. */
export const MOST_IN_MEMORY = 256 << 20;

interface Picking {
	showSaveFilePicker?(options: {suggestedName: string}): Promise<FileSystemFileHandle>;
}

/** picks reports whether the visitor can choose a file. */
export const picks = (): boolean => (window as Picking).showSaveFilePicker !== undefined;

/** streams reports whether the browser's downloads can be fed from here. */
export const streams = (): boolean => window.isSecureContext && navigator.serviceWorker !== undefined;

/** choose asks the visitor for a file, as the answer to a click. */
export function choose(name: string): Promise<FileSystemFileHandle> {
	return (window as Picking).showSaveFilePicker!({suggestedName: name});
}

/** toFile writes beside a file, and puts it there when the last byte is proved. */
export async function toFile(handle: FileSystemFileHandle): Promise<Sink> {
	const out = await handle.createWritable();
	return {write: (bytes) => out.write(bytes), close: () => out.close(), abort: (why) => out.abort(why)};
}

/** Memory holds bytes until all are proved. */
export class Memory implements Sink {
	private parts: BlobPart[] = [];
	private length = 0;
	blob: Blob | undefined;

	constructor(private most: number) {}

	async write(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
		this.length += bytes.length;
		if (this.length > this.most) {
			throw new Error(`This browser can hold no more than ${this.most / 2 ** 20} MiB here.`);
		}
		this.parts.push(bytes);
	}

	async close(): Promise<void> {
		this.blob = new Blob(this.parts);
		this.parts = [];
	}

	async abort(): Promise<void> {
		this.parts = [];
	}
}

/** toDownloads starts a download of the browser, which a service worker answers with the bytes as they are proved. The
 * browser takes them at its own speed. A download that is aborted is one that failed, so nothing is left of it. */
export async function toDownloads(name: string, size: number, script: string, scope: string): Promise<Sink> {
	const registered = await navigator.serviceWorker.register(scriptURL(script) as string, {scope});
	const worker = await active(registered);
	const {port1: port, port2} = new MessageChannel();
	const id = crypto.randomUUID();
	let more: () => void = () => {}, fail: (err: Error) => void = () => {}, gone = false;
	const wanted = (): Promise<void> => new Promise((resolve, reject) => {
		more = resolve;
		fail = reject;
	});
	let turn = wanted(); // resolves when the browser takes the next bytes
	turn.catch(() => {}); // write or close sees it
	const ready = new Promise<void>((resolve) => {
		port.onmessage = ({data}: MessageEvent<Port>) => {
			if (data === "ready") {
				resolve();
			} else if (data === "more") {
				more();
			} else if (data === "gone") {
				gone = true;
				fail(new Error("The browser ended the download."));
			}
		};
	});
	worker.postMessage({id, name, size}, [port2]);
	await ready;
	const frame = document.createElement("iframe");
	frame.hidden = true;
	frame.src = scope + id;
	document.body.append(frame);
	const awake = setInterval(() => worker.postMessage("awake"), 10_000); // browsers end a worker that seems idle
	const end = (): void => clearInterval(awake);
	return {
		async write(bytes): Promise<void> {
			await turn;
			turn = wanted();
			turn.catch(() => {});
			port.postMessage(bytes, [bytes.buffer]);
		},
		async close(): Promise<void> {
			await turn;
			port.postMessage("end");
			end();
		},
		async abort(why): Promise<void> {
			if (!gone) {
				port.postMessage({why});
			}
			end();
		},
	};
}

/** active resolves to the worker of a registration when it can serve. */
async function active(r: ServiceWorkerRegistration): Promise<ServiceWorker> {
	const worker = r.installing ?? r.waiting ?? r.active!;
	if (worker.state !== "activated") {
		await new Promise<void>((resolve, reject) => {
			worker.addEventListener("statechange", () => {
				if (worker.state === "activated") {
					resolve();
				} else if (worker.state === "redundant") {
					reject(new Error("The browser does not run the script that saves. Try again."));
				}
			});
		});
	}
	return worker;
}
