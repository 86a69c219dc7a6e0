// A service worker that answers the browser's downloads with what the page proved. It requests nothing itself.

/** Port is what the worker says to the page: it is ready, the browser takes more, or wants no more. */
export type Port = "ready" | "more" | "gone";

interface Order {
	name: string;
	size: number;
	port: MessagePort;
}

interface Extendable extends Event {
	waitUntil(p: Promise<unknown>): void;
}

interface Fetching extends Extendable {
	request: Request;
	respondWith(r: Response): void;
}

const orders = new Map<string, Order>();
const scope = self as unknown as {skipWaiting(): Promise<void>; registration: {scope: string}};

self.addEventListener("install", () => void scope.skipWaiting());

self.addEventListener("message", ({data, ports}) => {
	if (data !== "awake" && ports[0]) {
		orders.set(data.id, {name: data.name, size: data.size, port: ports[0]});
		ports[0].postMessage("ready");
	}
});

self.addEventListener("fetch", (event) => {
	const fetching = event as Fetching;
	const id = fetching.request.url.slice(scope.registration.scope.length), order = orders.get(id);
	orders.delete(id);
	fetching.respondWith(order ? respond(order, fetching) :
		new Response("This download has ended. Go back to the page that began it.\n", {status: 410}));
});

/** respond returns the answer whose bytes the page sends. */
function respond({name, size, port}: Order, event: Extendable): Response {
	let over: () => void;
	event.waitUntil(new Promise<void>((done) => over = done));
	const say = (word: Port): void => port.postMessage(word);
	let taken: () => void = () => {};
	const body = new ReadableStream<Uint8Array>({
		start(to): void {
			port.onmessage = ({data}) => {
				if (data === "end") {
					to.close();
					over();
				} else if (data instanceof Uint8Array) {
					to.enqueue(data);
					// Memory that came from the page is freed with the next collection, which Chromium begins for what is
					// allocated here alone: without this it keeps the whole object.
					new ArrayBuffer(data.length);
				} else {
					to.error(new Error(data.why));
					over();
				}
				taken();
			};
		},
		pull(): Promise<void> {
			say("more");
			return new Promise((done) => taken = done);
		},
		cancel(): void {
			say("gone");
			over();
		},
	}, {highWaterMark: 1});
	const safe = encodeURIComponent(name).replace(/['()*]/g, (c) => "%" + c.charCodeAt(0).toString(16));
	return new Response(body, {headers: {
		"Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename*=UTF-8''${safe}`,
		"Content-Length": String(size), "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; sandbox",
	}});
}
