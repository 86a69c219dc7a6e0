// What the page and its workers say to each other.

/** Ask is a request to a worker: prove bytes [start, end) of an object, or its size if start is -1. */
export interface Ask {
	id: number;
	object: string; // the URL of the object at a gateway
	root: string;
	start: number;
	end: number | undefined;
	patience: number; // milliseconds without a proved group after which the gateway is left
}

/** Answer is what a worker says to a request. bytes may come often and are proved. size and fault end the request. */
export interface Answer {
	id: number;
	at?: number; // the place of bytes in the object
	bytes?: Uint8Array<ArrayBuffer>;
	size?: number; // all bytes came; the object's size, proved if the range reached its end
	fault?: Fault;
}

/** Fault says why a gateway gave no more. */
export interface Fault {
	kind: "lie" | "refusal" | "failure"; // what does not prove; no; ask again
	at: number; // the first byte that is missing
	said: string; // for people, without the gateway's name
	retry: number; // milliseconds to wait, 0 if the gateway does not say
}

/** Cancel ends a request. */
export interface Cancel {
	id: number;
	cancel: true;
}
