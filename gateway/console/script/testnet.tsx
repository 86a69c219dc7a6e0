// The view Testnet.

import { bytes, count, duration, short } from "./format";
import { Card, Facts, Mark, Name, Row, Rows } from "./parts";
import type { Faults, OverviewTestnet, SpaceNode } from "./types";

const size = 300, middle = size / 2, radius = 120;

function place(at: number): [number, number] {
	const angle = 2 * Math.PI * at - Math.PI / 2;
	return [middle + radius * Math.cos(angle), middle + radius * Math.sin(angle)];
}

function about(n: SpaceNode): [Mark, string] {
	return n.self ? ["good", "this node"] : n.connected ? ["good", "connected"]
		: n.fails > 0 ? ["bad", "does not answer"] : ["off", "not connected"];
}

export function Testnet(p: { v: OverviewTestnet }) {
	const { space, faults } = p.v, self = space[0]!;
	const connected = space.filter((n) => n.connected && !n.self).length;
	const [sx, sy] = place(self.at);
	return <div class="cards two">
		<Card title="Key space" note={count(space.length + p.v.space_left, "node")}>
			<svg class="ring" viewBox={"0 0 " + size + " " + size} role="img"
				aria-label={count(space.length, "node") + " on a ring by their place in the key space; this one is connected to " +
					connected + " of them. The list of nodes has each."}>
				<circle class="grid" cx={middle} cy={middle} r={radius} />
				{space.filter((n) => !n.self && n.connected).map((n) => {
					const [x, y] = place(n.at);
					return <line key={n.id} class={cut(faults, n.id) ? "cut" : "link"} x1={sx} y1={sy} x2={x} y2={y} />;
				})}
				{space.map((n) => {
					const [x, y] = place(n.at);
					return <circle key={n.id} class={n.self ? "self" : n.connected ? "near" : n.fails > 0 ? "gone" : "far"}
						cx={x} cy={y} r={n.self ? 8 : 6}><title>{n.id}</title></circle>;
				})}
			</svg>
			<p class="quiet">Around the ring is the key space, from 0 at the top, clockwise. A line is a connection of this node.</p>
		</Card>
		<Card title="Chaos at this node">
			<Chaos f={faults} />
			<p class="quiet">Each node injects its own faults: the consoles of the others show theirs, and <code>allium testnet
				status</code> shows those of all.</p>
		</Card>
		<Card title="Nodes" note={connected + " of " + (space.length - 1) + " connected"}>
			<Rows empty="" left={p.v.space_left > 0 && count(p.v.space_left, "more node") + "."}>
				{space.map((n) => {
					const [mark, how] = about(n);
					return <Row key={n.id} mark={mark} title={<Name of={n.id} />} value={how}
						about={["at " + n.at.toFixed(4), n.self ? "" : "shares " + count(n.bucket, "bit"),
							n.table ? "in the routing table" : "", n.fails > 0 ? count(n.fails, "failure") + " in a row" : "",
						].filter(Boolean).join(" · ")} />;
				})}
			</Rows>
		</Card>
	</div>;
}

function cut(f: Faults, id: string): boolean {
	return (f.links ?? []).some((l) => l.peer === id && l.cut);
}

function Chaos(p: { f: Faults }) {
	const f = p.f, links = f.links ?? [];
	const some = links.length > 0 || f.corrupt || f.full_disk || f.clock_skew_ms || f.rate;
	return some ? <>
		<Facts of={[
			["Liar", f.corrupt && "one bit of every object that it serves is wrong"],
			["Disk", f.full_disk && "full, as the store sees it"],
			["Clock", f.clock_skew_ms ? duration(Math.abs(f.clock_skew_ms)) + (f.clock_skew_ms > 0 ? " ahead" : " behind") : ""],
			["Rate", f.rate ? "sends at most " + bytes(f.rate) + "/s" : ""],
		]} />
		<Rows empty="No link has a fault.">
			{links.map((l) => <Row key={l.peer} mark="bad" title={"to " + short(l.peer)} value={l.cut ? "cut" : ""}
				about={[l.delay_ms ? duration(l.delay_ms) + " late" : "", l.jitter_ms ? "up to " + duration(l.jitter_ms) + " more" : "",
					l.loss ? Math.round(100 * l.loss) + " % lost" : ""].filter(Boolean).join(" · ")} />)}
		</Rows>
	</> : <p class="quiet">This node injects no fault.</p>;
}
