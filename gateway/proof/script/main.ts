// The page that proves an object of gateways before it saves or shows it.

import {Download, Gateway, Sink} from "./download";
import {bytes, percent} from "./format";
import {Pool} from "./pool";
import {Fault} from "./protocol";
import {show} from "./show";
import {MOST_IN_MEMORY, Memory, choose, picks, streams, toDownloads, toFile} from "./sink";

const MOST_SHOWN = 16 << 20; // bytes of an object that the page shows
const MOST_FAULTS = 50; // lines about gateways
const FLOW = 3_000; // milliseconds over which the speed is taken

/** find returns an element of the page. */
function find<T extends HTMLElement = HTMLElement>(id: string): T {
	return document.getElementById(id) as T;
}

const data = document.querySelector("main")!.dataset as {
	root: string; name: string; worker: string; save: string; scope: string; patience?: string;
};
const save = find<HTMLButtonElement>("save"), pick = find<HTMLButtonElement>("pick");
const look = find<HTMLButtonElement>("look"), stop = find<HTMLButtonElement>("stop");
const bar = find<HTMLProgressElement>("bar");

const gateways: Gateway[] = [...document.querySelectorAll<HTMLElement>("[data-object]")].map((e) => ({
	name: e.dataset.name!, object: new URL(e.dataset.object!, location.href).href,
	proved: 0, busy: 0, failures: 0, rest: 0, out: "",
}));

const pool = new Pool(data.worker, data.root, () => Number(data.patience) || 30_000);

/** say tells the visitor how it goes. Screen readers read it. */
function say(text: string, kind = ""): void {
	const state = find("state");
	state.textContent = text;
	state.className = kind;
}

/** tell adds a line about what a gateway did wrong. */
function tell(g: Gateway, fault: Fault): void {
	const list = find("faults");
	find("trouble").hidden = false;
	if (list.childElementCount < MOST_FAULTS) {
		const line = list.appendChild(document.createElement("li"));
		const name = line.appendChild(document.createElement("b"));
		name.textContent = g.name;
		const lied = fault.kind === "lie";
		line.append(`${lied ? " lied" : ""}: ${fault.said}. It is ${g.out ? "not asked" : "asked"} again.`);
		line.className = lied ? "bad" : "";
	}
	render();
}

/** render shows what each gateway did. */
function render(): void {
	document.querySelectorAll<HTMLElement>("[data-object]").forEach((e, i) => {
		const g = gateways[i]!;
		const did = g.proved > 0 ? `${bytes(g.proved)} proved` : "";
		e.querySelector("span")!.textContent = [did, g.out && "not asked any more"].filter(Boolean).join(", ");
	});
}

/** Meter shows how far a download is. */
class Meter {
	private begun = performance.now();
	private marks: [number, number][] = [];
	private said = 0; // percent
	private timer: number;

	constructor(private of: Download) {
		this.timer = setInterval(() => this.tick(), 250);
	}

	private tick(): void {
		const {size, written} = this.of, now = performance.now();
		if (size < 0) {
			return;
		}
		bar.max = Math.max(1, size);
		bar.value = written;
		this.marks.push([now, written]);
		while (this.marks.length > 2 && now - this.marks[0]![0] > FLOW) {
			this.marks.shift();
		}
		const [then, had] = this.marks[0]!;
		const speed = now > then ? (written - had) / (now - then) * 1000 : 0;
		find("speed").textContent = `${bytes(written)} of ${bytes(size)}, ${bytes(speed)}/s`;
		const done = percent(written, size);
		if (done >= this.said + 10) { // a screen reader is told ten times at most
			this.said = done - done % 10;
			say(`${this.said} % proved.`);
		}
		render();
	}

	/** end returns the bytes of a second on average. */
	end(): number {
		clearInterval(this.timer);
		this.tick();
		return this.of.size / Math.max(1, performance.now() - this.begun) * 1000;
	}
}

/** enable lets the visitor begin, or not. */
function enable(may: boolean): void {
	save.disabled = pick.disabled = look.disabled = !may;
}

/** begin makes the page one that works. */
function begin(): Download {
	for (const g of gateways) {
		Object.assign(g, {proved: 0, busy: 0, failures: 0, rest: 0, out: ""});
	}
	find("faults").replaceChildren();
	find("trouble").hidden = true;
	find("shown").replaceChildren();
	find("progress").hidden = stop.hidden = false;
	enable(false);
	stop.focus();
	bar.removeAttribute("value");
	find("speed").textContent = "";
	return new Download(gateways, pool.prove, tell);
}

/** go runs a download. open opens the sink when the size is proved, done says what became of it. */
async function go(open: (size: number) => Promise<Sink>, done: () => Promise<string>, most = Infinity): Promise<void> {
	const begun = document.activeElement instanceof HTMLButtonElement ? document.activeElement : save;
	const download = begin();
	let meter: Meter | undefined;
	stop.onclick = () => download.cancel("cancelled");
	say("Asking for the size, with a proof.");
	try {
		const size = await download.measure();
		if (size > most) {
			throw new Error(`The object has ${bytes(size)}, and this browser holds ${bytes(most)} here.`);
		}
		const sink = await open(size);
		meter = new Meter(download);
		say("Proving.");
		await download.run(sink);
		const speed = meter.end();
		say(`All ${bytes(size)} are proved, ${bytes(speed)}/s. ${await done()}`, "good");
	} catch (err) {
		meter?.end();
		const {message, name} = err as Error;
		say(message === "cancelled" || name === "AbortError" ? "Cancelled. Nothing is saved." :
			`${message} Nothing is saved.`, "bad");
	} finally {
		stop.hidden = true;
		enable(true);
		begun.focus();
		render();
	}
}

/** intoMemory saves what this browser holds in memory. */
async function intoMemory(): Promise<void> {
	const sink = new Memory(MOST_IN_MEMORY);
	await go(async () => sink, async () => {
		const link = document.createElement("a");
		link.href = URL.createObjectURL(sink.blob!);
		link.download = data.name;
		link.click();
		setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
		return "The browser saves them.";
	}, MOST_IN_MEMORY);
}

save.onclick = (): Promise<void> => streams() ?
	go((size) => toDownloads(data.name, size, data.save, data.scope), async () => "They are in your downloads.") :
	intoMemory();

pick.onclick = async (): Promise<void> => {
	try {
		const file = await choose(data.name);
		await go(() => toFile(file), async () => `They are in ${file.name}.`);
	} catch (err) { // go has none
		say((err as Error).name === "AbortError" ? "No file was chosen." : (err as Error).message, "bad");
	}
};

look.onclick = async (): Promise<void> => {
	const sink = new Memory(MOST_SHOWN);
	await go(async () => sink, () => show(sink.blob!, find("shown")), MOST_SHOWN);
};

find("how").textContent = (streams() ?
	"The bytes go to your downloads as they are proved. One that does not prove ends the download as failed." :
	`A page without https holds the object in memory: at most ${bytes(MOST_IN_MEMORY)}.`) + (picks() ?
	" A file that you choose appears when every byte is proved; that takes longer." : "");
pick.hidden = !picks();
enable(true);
render();
say("Nothing is asked for yet.");
