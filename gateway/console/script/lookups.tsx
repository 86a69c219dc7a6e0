// The view Lookups, with the ladder of one.

import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "./client";
import { between, bytes, count, duration, short, words } from "./format";
import { Card, Facts, Mark, Name, Row, Rows } from "./parts";
import type { Lookup, LookupHead, LookupProvider, Overview, Step, Why } from "./types";

function ending(l: LookupHead): [Mark, string] {
	return l.running ? ["wait", "running"] : l.outcome === "ok" ? ["good", "ok"] : ["bad", words(l.outcome ?? "")];
}

export function Lookups(p: { o: Overview }) {
	const v = p.o.lookups!;
	const [id, setID] = useState("");
	const [failed, setFailed] = useState(false);
	const list = failed ? v.lookups.filter((l) => !l.running && l.outcome !== "ok") : v.lookups;
	return <div class={id ? "cards two" : "cards one"}>
		{id && <Explained key={id} id={id} at={p.o.at} open={setID} />}
		<Card title="Latest lookups" note={String(list.length)}>
			<label class="check"><input type="checkbox" checked={failed} onChange={(e) => setFailed(e.currentTarget.checked)} />
				only those that failed</label>
			<Rows empty="The node remembers no such lookup." left={v.left > 0 && count(v.left, "older lookup") + "; allium why shows one by its address."}>
				{list.map((l) => {
					const [mark, how] = ending(l);
					return <Row key={l.id} mark={mark}
						title={<button type="button" class="link" aria-current={l.id === id ? "true" : undefined}
							onClick={() => setID(l.id)}>{l.kind} <code>{short(l.key)}</code></button>}
						value={how + ", " + duration(l.took_ms)}
						about={between(l.start, p.o.at) + (l.message ? " · " + l.message : "")} />;
				})}
			</Rows>
		</Card>
	</div>;
}

function Explained(p: { id: string; at: string; open: (id: string) => void }) {
	const [why, setWhy] = useState<Why | null>(null);
	const [problem, setProblem] = useState("");
	const top = useRef<HTMLDivElement>(null);
	useEffect(() => {
		let gone = false;
		request<Why>("/api/v1/why?key=" + encodeURIComponent(p.id)).then(
			(w) => gone || (setWhy(w), top.current?.focus()),
			(err: Error) => gone || setProblem(err.message),
		);
		return () => {
			gone = true;
		};
	}, [p.id]);
	const l = why?.lookup;
	return <Card title="Why" note={p.id}>
		<div ref={top} tabIndex={-1} class="focus">
			{problem ? <p class="quiet">{problem}</p> : !l ? <p class="quiet">Asking the node…</p> : <Course l={l} at={p.at} />}
			{why?.parts && why.parts.length > 0 && <>
				<h3>Lookups that it led to</h3>
				<ul class="rows">{why.parts.map((part) => <Row key={part.id} mark={ending(part)[0]} value={ending(part)[1]}
					title={<button type="button" class="link" onClick={() => p.open(part.id)}>{part.kind} <code>{short(part.key)}</code></button>} />)}</ul>
			</>}
		</div>
		<div class="acts"><button type="button" class="light" onClick={() => p.open("")}>Close</button></div>
	</Card>;
}

function Course(p: { l: Lookup; at: string }) {
	const l = p.l;
	return <>
		<Facts of={[
			["Key", <Name of={l.key} />],
			["Outcome", ending(l)[1] + (l.message ? ": " + l.message : "")],
			["Took", duration(l.took_ms) + (l.ready_ms ? ", first result after " + duration(l.ready_ms) : "") +
				(l.budget_ms ? ", of at most " + duration(l.budget_ms) : "")],
			["Bytes", l.bytes > 0 && bytes(l.bytes) + " from peers"],
			["Shared by", l.callers > 1 && count(l.callers, "request")],
		]} />
		{l.steps.length > 0 && <>
			<h3>Sources</h3>
			<ul class="rows">{l.steps.map((s, i) => <Row key={i}
				mark={s.verdict === "hit" || s.verdict === "granted" ? "good" : s.verdict === "failed" ? "bad" : "off"}
				title={s.source + ": " + s.verdict + (s.count ? ", " + s.count : "")} value={"at " + duration(s.at_ms)} about={s.note} />)}</ul>
		</>}
		<Ladder l={l} />
		{l.providers.length > 0 && <>
			<h3>Providers</h3>
			<ul class="rows">{l.providers.map((q) => <Provider key={q.id} of={q} />)}</ul>
		</>}
	</>;
}

function Provider(p: { of: LookupProvider }) {
	const q = p.of;
	return <Row mark={q.gave_up ? "bad" : q.bytes > 0 ? "good" : "off"} title={<Name of={q.id} />} value={bytes(q.bytes)}
		about={["from " + q.source, "known after " + duration(q.found_ms), count(q.asked, "request"),
			q.rtt_ms ? duration(q.rtt_ms) + " to the first byte" : "", q.rate ? bytes(q.rate) + "/s" : "",
			q.gave_up ? "given up: " + words(q.gave_up.outcome) + ", " + q.gave_up.message : ""].filter(Boolean).join(" · ")} />;
}

// Probe is a step of a search, at its time in the lookup.
interface Probe extends Step {
	from: number;
}

const width = 640, height = 240, edge = 8;

// Ladder draws the probes of the searches: time to the right, and upwards the bits that a peer shares with the key.
function Ladder(p: { l: Lookup }) {
	const probes: Probe[] = p.l.searches.flatMap((s) =>
		(s.trace?.steps ?? []).map((step) => ({ ...step, from: s.at_ms + step.start_ms })));
	if (probes.length === 0) {
		return <p class="quiet">No peer was asked where the key is: what this node knew was enough.</p>;
	}
	const end = Math.max(1, ...probes.map((s) => s.from + s.took_ms)), start = Math.min(0, ...probes.map((s) => s.from));
	const most = Math.max(3, ...probes.map((s) => s.shared)), every = Math.ceil((most + 1) / 6);
	const ticks = Array.from({ length: Math.ceil((most + 1) / every) + 1 }, (_, i) => i * every);
	const x = (ms: number) => edge + (width - 2 * edge) * (ms - start) / (end - start);
	const y = (bits: number) => height - edge - (height - 2 * edge) * bits / ticks[ticks.length - 1]!;
	const seen = new Map<number, number>(); // probes of as many bits lie a little apart
	const lines = probes.map((s) => {
		const n = seen.get(s.shared) ?? 0;
		seen.set(s.shared, n + 1);
		return { ...s, y: y(s.shared) - 5 * (n % 5) };
	});
	const answered = probes.filter((s) => s.outcome === "ok").length;
	return <>
		<h3>The ladder</h3>
		<div class="ladder-box">
		<div class="up" aria-hidden="true">{[...ticks].reverse().map((bits) => <span key={bits}>{bits}</span>)}</div>
		<svg class="ladder" viewBox={"0 0 " + width + " " + height} role="img" aria-label={"Of " + count(probes.length, "probe") + ", " +
			answered + " were answered within " + duration(end) + "; the nearest peer shares " +
			count(Math.max(...probes.map((s) => s.shared)), "bit") + " with the key. The table below has all of them."}>
			{ticks.map((bits) => <line key={bits} class="grid" x1={edge} x2={width - edge} y1={y(bits)} y2={y(bits)} />)}
			{lines.map((s, i) => <g key={i} class={s.outcome === "ok" ? "ok" : "no"}>
				<line x1={x(s.from)} x2={Math.max(x(s.from) + 2, x(s.from + s.took_ms))} y1={s.y} y2={s.y}
					class={s.hedge ? "hedge" : ""} />
				<circle cx={x(s.from)} cy={s.y} r={s.providers > 0 ? 6 : 4} />
			</g>)}
		</svg>
		</div>
		<div class="along" aria-hidden="true">
			{[0, 0.5, 1].map((t) => <span key={t}>{duration(start + t * (end - start))}</span>)}
		</div>
		<p class="quiet">To the right is time, upwards the bits that a peer shares with the key. A large point brought providers,
			a broken line was sent in place of a late one.</p>
		<details><summary>As a table</summary>
			<div class="scroll" tabIndex={0} role="region" aria-label="The probes"><table>
				<thead><tr><th>Peer</th><th>Hop</th><th>Shared bits</th><th>At</th><th>Took</th><th>Outcome</th><th>Brought</th></tr></thead>
				<tbody>{probes.map((s, i) => <tr key={i}>
					<td><code>{short(s.peer)}</code></td><td>{s.hop}</td><td>{s.shared}</td><td>{duration(s.from)}</td>
					<td>{duration(s.took_ms)}</td><td>{words(s.outcome)}{s.hedge ? ", hedge" : ""}</td>
					<td>{count(s.closer, "closer peer")}, {count(s.providers, "provider")}</td>
				</tr>)}</tbody>
			</table></div>
		</details>
	</>;
}
