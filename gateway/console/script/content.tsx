// The view Content.

import { useState } from "preact/hooks";
import { between, bytes, count, duration, short, words } from "./format";
import { Bar, Card, Cells, Facts, Mark, Name, Row, Rows, Tag } from "./parts";
import { Acts, Sure } from "./token";
import type { Durability, GCReport, Overview, Pin, PinCopies } from "./types";

const states: Record<string, Mark> = {
	met: "good", checking: "wait", at_risk: "bad", unreachable: "bad", lost: "bad",
};

export function Content(p: { o: Overview; acts: Acts }) {
	const v = p.o.content!;
	const [find, setFind] = useState("");
	const pins = v.pins.filter((pin) => pin.root.includes(find) || (pin.label ?? "").includes(find))
		.sort((a, b) => (a.label ?? "~").localeCompare(b.label ?? "~") || a.root.localeCompare(b.root));
	return <div class="side"><div>
		<Risk d={v.durability} at={p.o.at} />
		<Card title="Arriving" note={v.arriving.length ? String(v.arriving.length) : ""}>
			<Rows empty="Every object is here as a whole." left={v.arriving_left > 0 && v.arriving_left + " more."}>
				{v.arriving.map((a) => <Row key={a.root} mark={a.running ? "wait" : "off"} title={<Name of={a.root} />}
					value={Math.floor(100 * a.stored / a.size) + " %"}
					about={bytes(a.stored) + " of " + bytes(a.size) + " proved" + (a.running ? ", being fetched" : ", left half done")}>
					<Cells of={a.cells} />
				</Row>)}
			</Rows>
		</Card>
		{v.damage && <Card title="Damage" note={String(v.damage.open)}>
			<Rows empty="">
				{v.damage.damage.map((d, i) => <Row key={i} mark={d.state === "open" ? "bad" : "off"}
					title={d.kind + ": " + d.reason} value={d.state} about={d.file} />)}
			</Rows>
		</Card>}
		{p.acts.token && <Collect acts={p.acts} />}
	</div><div>
		<Card title="Pins" note={v.pins.length + (v.pins_left ? " shown, there are more" : "")}>
			{v.pins.length > 8 && <form class="filter" role="search" onSubmit={(e) => e.preventDefault()}>
				<label class="hidden" for="find">Show pins with</label>
				<input id="find" type="search" placeholder="label or address" value={find}
					onInput={(e) => setFind(e.currentTarget.value)} />
			</form>}
			{p.acts.token && <PinForm acts={p.acts} />}
			<Rows empty={find ? "No pin has that." : "Nothing is pinned."}
				left={v.pins_left && "allium pin ls lists all of them."}>
				{pins.map((pin) => <PinRow key={pin.root + pin.label} pin={pin} at={p.o.at} acts={p.acts} />)}
			</Rows>
		</Card>
	</div></div>;
}

function Risk(p: { d: Durability | undefined; at: string }) {
	const d = p.d;
	if (!d) {
		return <Card title="Durability">
			<p class="quiet">This node is in no cluster: what it keeps is here alone, unless others fetched it.</p>
		</Card>;
	}
	const met = d.objects - d.at_risk - d.checking - d.lost, whole = Math.max(1, d.objects);
	return <Card title="Durability">
		<p class="verdict">{d.lost > 0 ? <Tag is="bad">{count(d.lost, "object")} lost</Tag>
			: d.at_risk > 0 ? <Tag is="bad">{count(d.at_risk, "object")} at risk</Tag>
				: d.checking > 0 || !d.ready ? <Tag is="wait">checking</Tag> : <Tag is="good">nothing is at risk</Tag>}</p>
		<Bar parts={[
			{ share: met / whole, kind: "used" }, { share: d.checking / whole, kind: "half" },
			{ share: (d.at_risk + d.lost) / whole, kind: "much" },
		]} />
		<Facts of={[
			["Objects", d.objects + " with a target, " + d.checking + " being checked"],
			["Copies", d.copies_observed + " proved of " + d.copies_wanted],
			["Missing", d.missing_bytes > 0 && bytes(d.missing_bytes) +
				(d.eta_s > 0 ? ", about " + duration(d.eta_s * 1000) + " at the present rate" : "")],
			["Unreachable", d.unreachable > 0 && count(d.unreachable, "object") + " until a silent member answers"],
			["Only last copies", d.last_only && "are sent: more than a third of the members vanished together"],
		]} />
		<Rows empty="">
			{d.members.map((m) => <Row key={m.id} mark={m.state === "present" ? "good" : m.state === "gone" ? "bad" : "wait"}
				title={<><Name of={m.id} />{m.self && " (this node)"}</>} value={m.state}
				about={bytes(m.free) + " free of " + bytes(m.capacity) + (m.region ? " · " + m.region : "") +
					(m.domain ? " · " + m.domain : "")}>
				<Bar parts={[{ share: m.capacity > 0 ? 1 - m.free / m.capacity : 0, kind: "used" }]} />
			</Row>)}
		</Rows>
	</Card>;
}

function PinRow(p: { pin: PinCopies; at: string; acts: Acts }) {
	const { pin, acts } = p, target = pin.target;
	const asks = target && (target.ec ? "erasure code " + target.ec : target.rf ? target.rf + " copies" : "");
	return <Row title={<>{pin.label && <strong class="label">{pin.label}</strong>}<Name of={pin.root} /></>}
		value={(pin.at_least ? "at least " : "") + bytes(pin.size ?? 0)}
		about={<>
			{[pin.recursive ? "with all below it" : "alone", "since " + between(pin.since, p.at), asks ? "asks for " + asks : ""]
				.filter(Boolean).join(" · ")}{" "}
			{pin.state && <Tag is={states[pin.state]}>{words(pin.state)}: {pin.observed ?? 0} of {pin.wanted ?? 0} copies</Tag>}
			{(pin.objects ?? 0) > 1 && <span> {pin.met ?? 0} of {pin.objects} objects have theirs</span>}
		</>}>
		{pin.wanted ? <Bar parts={[{
			share: (pin.objects ?? 0) > 1 ? (pin.met ?? 0) / pin.objects! : (pin.observed ?? 0) / pin.wanted,
			kind: pin.state === "met" ? "used" : "half",
		}]} /> : null}
		{acts.token && <div class="acts"><Sure label="Unpin" about={pin.label || short(pin.root)} disabled={acts.busy}
			act={() => void acts.run("/admin/unpin", { key: pin.root, label: pin.label ?? "" },
				() => short(pin.root) + " has that pin no more.")} /></div>}
	</Row>;
}

function PinForm(p: { acts: Acts }) {
	const [key, setKey] = useState(""), [label, setLabel] = useState(""), [all, setAll] = useState(true);
	return <form class="change" onSubmit={(e) => {
		e.preventDefault();
		void p.acts.run<Pin>("/admin/pin", { key: key.trim(), label: label.trim(), recursive: all },
			(pin) => short(pin.root) + " is pinned.").then((done) => done && setKey(""));
	}}>
		<div><label for="pin-key">Pin an address</label>
			<input id="pin-key" class="mono" required placeholder="b3:…" value={key} onInput={(e) => setKey(e.currentTarget.value)} /></div>
		<div><label for="pin-label">Label</label>
			<input id="pin-label" value={label} onInput={(e) => setLabel(e.currentTarget.value)} /></div>
		<label class="check"><input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} />
			with all below it</label>
		<button disabled={p.acts.busy}>Pin</button>
	</form>;
}

function Collect(p: { acts: Acts }) {
	const [report, setReport] = useState<GCReport | null>(null);
	const run = (dry: boolean, all: boolean) => void p.acts.run<GCReport>("/admin/gc", { dry, all }, (r) => {
		const removed = r.classes.find((c) => c.class === "removed");
		return (dry ? "A collection would remove " : "Removed ") + count(removed?.objects ?? 0, "object") + ", " +
			bytes(removed?.bytes ?? 0) + ".";
	}).then(setReport);
	return <Card title="Collect garbage">
		<p class="quiet">A collection removes what neither a pin nor a running operation needs.</p>
		<div class="acts">
			<button type="button" class="light" disabled={p.acts.busy} onClick={() => run(true, true)}>Show what it would remove</button>
			<Sure label="Remove" about="all that nothing needs" disabled={p.acts.busy} act={() => run(false, true)} />
		</div>
		{report && <Facts of={report.classes.map((c) => [c.class, count(c.objects, "object") + ", " + bytes(c.bytes)])} />}
	</Card>;
}
