// What the page shows of proved bytes: pictures and texts. Nothing of it runs.

const MOST_TEXT = 256 << 10; // bytes of a text

/** pictures are the types of images by their first bytes, in Latin-1. */
const pictures: [RegExp, string][] = [
	[/^\x89PNG\r\n\x1a\n/, "image/png"], [/^\xff\xd8\xff/, "image/jpeg"], [/^GIF8[79]a/, "image/gif"],
	[/^RIFF[^]{4}WEBP/, "image/webp"], [/^[^]{4}ftypavif/, "image/avif"],
];

/** show puts the bytes into a place, and says what is seen. */
export async function show(blob: Blob, into: HTMLElement): Promise<string> {
	const head = String.fromCharCode(...new Uint8Array(await blob.slice(0, 16).arrayBuffer()));
	const type = pictures.find(([begins]) => begins.test(head))?.[1];
	if (type) {
		const image = document.createElement("img");
		image.src = URL.createObjectURL(new Blob([blob], {type}));
		image.alt = "The proved picture";
		try {
			await image.decode();
		} catch {
			return "They begin like a picture, and this browser cannot show it.";
		} finally {
			URL.revokeObjectURL(image.src);
		}
		into.replaceChildren(image);
		return "The picture is below.";
	}
	const cut = blob.size > MOST_TEXT;
	try {
		const all = await blob.slice(0, MOST_TEXT).arrayBuffer();
		const text = new TextDecoder("utf-8", {fatal: true}).decode(all, {stream: cut});
		if (text.includes("\0")) {
			throw new TypeError("no text");
		}
		const sheet = document.createElement("pre");
		sheet.textContent = text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd"); // what turns the reading around
		sheet.tabIndex = 0;
		into.replaceChildren(sheet);
		return cut ? "The first 256 KiB are below." : "The text is below.";
	} catch {
		return "They are neither a picture nor a text: save them.";
	}
}
