// The pieces of which the views are made.

import { Component, ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { short } from "./format";

/** Card is a titled box. */
export function Card(p: { title: string; note?: string; children: ComponentChildren }) {
	return <section class="card">
		<h2>{p.title}{p.note && <span class="aside"> {p.note}</span>}</h2>
		{p.children}
	</section>;
}

/** Facts is a list of names and values. Those without a value are left out. */
export function Facts(p: { of: [string, ComponentChildren][] }) {
	return <dl class="pairs">
		{p.of.filter(([, v]) => v !== "" && v !== undefined && v !== null && v !== false)
			.map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}
	</dl>;
}

/** Rows is a list of things, or a sentence if there is none. */
export function Rows(p: { empty: string; left?: string | false; children: ComponentChildren[] }) {
	if (p.children.length === 0) {
		return <p class="quiet">{p.empty}</p>;
	}
	return <>
		<ul class="rows">{p.children}</ul>
		{p.left && <p class="quiet">{p.left}</p>}
	</>;
}

/** Row is a thing: what it is, what is known of it, and a figure. */
export function Row(p: {
	mark?: Mark; title: ComponentChildren; about?: ComponentChildren; value?: ComponentChildren;
	children?: ComponentChildren;
}) {
	return <li>
		<div class="head">
			<span class="title">{p.mark && <Dot is={p.mark} />}{p.title}</span>
			{p.value !== undefined && <span class="value">{p.value}</span>}
		</div>
		{p.about && <div class="about">{p.about}</div>}
		{p.children}
	</li>;
}

/** Safe shows a sentence in place of what cannot be drawn. A new key tries again. */
export class Safe extends Component<{ children: ComponentChildren }, { failed: string }> {
	state = { failed: "" };

	static getDerivedStateFromError(err: unknown) {
		return { failed: String(err) };
	}

	render() {
		return this.state.failed ? <p class="quiet">This view cannot be drawn: {this.state.failed}</p> : this.props.children;
	}
}

/** Mark says how something does. */
export type Mark = "good" | "bad" | "wait" | "off";

/** Dot shows a Mark to the eye; the text beside it says the same. */
export function Dot(p: { is: Mark }) {
	return <svg class={"dot " + p.is} viewBox="0 0 12 12" aria-hidden="true">
		{p.is === "bad" ? <path d="M2 2 10 10 M10 2 2 10" />
			: p.is === "wait" ? <path d="M6 1.5 11 10.5 1 10.5 Z" /> : <circle cx="6" cy="6" r="4.5" />}
	</svg>;
}

/** Tag is a word in a frame. */
export function Tag(p: { is?: Mark; children: ComponentChildren }) {
	return <span class={"tag " + (p.is ?? "")}>{p.children}</span>;
}

/** Bar shows parts of a whole, each from 0 to 1. The text beside it has the numbers. */
export function Bar(p: { parts: { share: number; kind: string }[] }) {
	let x = 0;
	return <svg class="bar-of" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
		<rect class="rest" x="0" y="0" width="100" height="8" />
		{p.parts.map(({ share, kind }) => {
			const width = Math.max(0, Math.min(100 - x, share * 100)), at = x;
			x += width;
			return <rect key={kind} class={kind} x={at} y="0" width={width} height="8" />;
		})}
	</svg>;
}

/** Cells shows how much of each part of an object is here, in percent. */
export function Cells(p: { of: number[] }) {
	const n = p.of.length;
	return <svg class="cells" viewBox={"0 0 " + n + " 1"} preserveAspectRatio="none" aria-hidden="true">
		<rect class="rest" x="0" y="0" width={n} height="1" />
		{p.of.map((percent, i) => percent > 0 &&
			<rect key={i} class="used" x={i} y="0" width="1" height="1" opacity={0.25 + 0.75 * percent / 100} />)}
	</svg>;
}

/** Line draws values, the latest at the right. */
export function Line(p: { of: number[]; kind: string; most: number; room: number }) {
	const points = p.of.map((v, i) =>
		(p.room - p.of.length + i) + "," + (30 - 28 * (p.most > 0 ? v / p.most : 0)).toFixed(2));
	return <polyline class={p.kind} points={points.join(" ")} />;
}

/** Name shows an address, an ID or a name, shortened; a press shows it whole and takes it to the clipboard. */
export function Name(p: { of: string; label?: string }) {
	const [whole, setWhole] = useState(false);
	const text = whole ? p.of : p.label ?? short(p.of);
	if (p.of === short(p.of) && !p.label) {
		return <code class="name">{p.of}</code>;
	}
	return <button type="button" class="name" aria-expanded={whole} title={p.of} onClick={() => {
		setWhole(!whole);
		if (!whole) {
			navigator.clipboard?.writeText(p.of).catch(() => undefined); // it is shown, too
		}
	}}><code>{text}</code></button>;
}
