/*! Verified bytes from an allium gateway that need not be trusted (docs/http.md, "In a browser").
 *
 *   import { verifiedFetch } from "https://gateway.example/verify.mjs";
 *   const r = await verifiedFetch("https://gateway.example/o/b3:…");
 *   img.src = URL.createObjectURL(await r.blob());
 *
 * Load this module from somewhere you trust: it is what does the checking. Its sources are gateway/proof/script.
 */

import {MEDIA, Range, digest, query, verify} from "./bao";

export {VerifyError, verify} from "./bao";
export {engine, hash} from "./blake3";

/** verifiedFetch fetches an object from a gateway: url is …/o/b3:…. It resolves to a Response whose body is proved as
 * it is read. range is {start, end} of the object's bytes; type becomes the Response's Content-Type, of which the
 * gateway says nothing that could be proved; the rest goes to fetch. */
export async function verifiedFetch(
	url: string, {range = {}, type = "application/octet-stream", ...init}:
		{range?: Range; type?: string} & RequestInit = {},
): Promise<Response> {
	const target = new URL(url, globalThis.location?.href);
	const root = decodeURIComponent(target.pathname.split("/").pop()!);
	digest(root);
	const {start = 0, end} = range;
	const ends = end === undefined || (Number.isSafeInteger(end) && start >= 0 && end > start);
	if (!Number.isSafeInteger(start) || !ends) {
		throw new RangeError("range is {start, end} with 0 ≤ start < end, or a start below 0 alone");
	}
	target.search = query(range);
	const answer = await fetch(target, init);
	if (answer.status !== 200 || answer.headers.get("Content-Type") !== MEDIA) {
		await answer.body?.cancel();
		throw new Error(`${target.host} answered ${answer.status} instead of a verified encoding`);
	}
	const body = answer.body ?? new Response("").body!;
	return new Response(verify(root, body, range), {headers: {"Content-Type": type}});
}
