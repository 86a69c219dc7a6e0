// The view Now.

import type { State } from "./client";
import { between, bytes, clock, count, duration, short, words } from "./format";
import { Bar, Card, Dot, Facts, Line, Name, Row, Rows, Tag } from "./parts";
import type { Event, Limit, Overview, StoreStat } from "./types";

export function Now(p: { state: State; o: Overview }) {
	const now = p.o.now!;
	return <div class="cards">
		<Gates o={p.o} />
		<Disk store={now.store} at={p.o.at} />
		<Rates state={p.state} />
		<Card title="Process">
			<Facts of={[
				["Up for", duration(now.process.uptime_ms)],
				["Memory", bytes(now.process.memory_bytes) +
					(now.process.memory_limit ? " of " + bytes(now.process.memory_limit) : "")],
				["Connections", count(now.process.conns, "connection") + ", " + count(now.process.streams, "stream")],
				["Goroutines", now.process.goroutines.toLocaleString("en")],
				["Clock", now.clock.known ? duration(Math.abs(now.clock.offset_ms)) +
					(now.clock.offset_ms < 0 ? " behind" : " ahead of") + " its peers"
					: "compared with " + now.clock.voices + " of " + now.clock.need + " groups of peers"],
			]} />
		</Card>
		<Card title="Transfers under way" note={now.transfers.length ? String(now.transfers.length) : ""}>
			<Rows empty="Nothing is being fetched."
				left={now.transfers_left > 0 && count(now.transfers_left, "more lookup") + " under way."}>
				{now.transfers.map((t) => <Row key={t.id} mark="wait"
					title={<Name of={t.key} />} value={bytes(t.bytes)}
					about={t.kind + " for " + duration(t.took_ms) + " from " + count(t.peers, "peer") +
						(t.size ? "; " + bytes(t.here ?? 0) + " of " + bytes(t.size) + " are here" : "")}>
					{t.size ? <Bar parts={[{ share: (t.here ?? 0) / t.size, kind: "used" }]} /> : null}
				</Row>)}
			</Rows>
		</Card>
		<Limits all={now.limits} left={now.limits_left} />
		<Card title="What happened" note={p.state.live ? "live" : "not live"}>
			<Rows empty="Nothing since this page was opened."
				left={p.state.lost > 0 && count(p.state.lost, "event") + " came too fast to be shown."}>
				{p.state.feed.map((e, i) => <Row key={e.at + i} title={told(e)} value={clock(e.at)} />)}
			</Rows>
		</Card>
	</div>;
}

function Gates(p: { o: Overview }) {
	const ready = p.o.ready;
	return <Card title={ready.ready ? "Ready" : "Not ready"} note={[
		ready.reads ? "reads" : "no reads", ready.writes ? "writes" : "no writes",
		ready.network ? "network" : "no network"].join(", ")}>
		{!ready.ready && <ul class="rows">
			{ready.gates.filter((g) => !g.ready).map((g) => <Row key={g.name} mark="bad"
				title={<>{words(g.name)} <span class="hidden">is shut</span></>} value={g.have + " of " + g.need}
				about={g.fix + (g.since ? " Shut since " + between(g.since, p.o.at) + "." : "")} />)}
		</ul>}
		<ul class="gates">
			{ready.gates.filter((g) => g.ready).map((g) => <li key={g.name}><Dot is="good" />
				{words(g.name)} <span class="hidden">is open</span></li>)}
		</ul>
	</Card>;
}

function Disk(p: { store: StoreStat; at: string }) {
	const s = p.store, space = s.space;
	const whole = space.max.bytes || (space.free >= 0 ? space.used.bytes + space.free : 0);
	const pinned = Math.min(space.pinned.bytes, space.used.bytes);
	return <Card title="Disk" note={s.backend}>
		{whole > 0 && <Bar parts={[
			{ share: pinned / whole, kind: "used" }, { share: (space.used.bytes - pinned) / whole, kind: "half" },
		]} />}
		<Facts of={[
			["In use", bytes(space.used.bytes) + (space.max.bytes ? " of " + bytes(space.max.bytes) : "")],
			["Pinned", bytes(space.pinned.bytes) + " when last counted"],
			["Free on the disk", space.free < 0 ? "" : bytes(space.free)],
			["Objects", s.objects.toLocaleString("en")],
			["In part", s.partial_objects > 0 &&
				count(s.partial_objects, "object") + ", " + bytes(s.partial_bytes) + " of them"],
			["Uploads", s.uploads > 0 && count(s.uploads, "upload") + ", " + bytes(s.upload_bytes) + " so far"],
			["Damaged", s.corrupt > 0 && <Tag is="bad">{count(s.corrupt, "object")}</Tag>],
			["Full", space.full && <Tag is="bad">{space.full_reason || "writes are refused"}</Tag>],
			["Writes", s.write_error && <Tag is="bad">{s.write_error}</Tag>],
			["Check", s.scrub.running ? Math.round(s.scrub.progress * 100) + " % of the store read again"
				: s.scrub.last_end ? "whole, " + between(s.scrub.last_end, p.at) : ""],
		]} />
	</Card>;
}

function Rates(p: { state: State }) {
	const { rates, overview } = p.state, last = rates[rates.length - 1], total = overview!.now!.traffic;
	const most = Math.max(1, ...rates.map((r) => Math.max(r.in, r.out)));
	return <Card title="Rates" note="verified bytes, with peers">
		<svg class="rates" viewBox="0 0 59 32" preserveAspectRatio="none" aria-hidden="true">
			<Line of={rates.map((r) => r.in)} kind="in" most={most} room={60} />
			<Line of={rates.map((r) => r.out)} kind="out" most={most} room={60} />
		</svg>
		<Facts of={[
			["From peers", <><i class="key in" />{last ? bytes(last.in) + "/s, " : ""}{bytes(total.in)} in all</>],
			["To peers", <><i class="key out" />{last ? bytes(last.out) + "/s, " : ""}{bytes(total.out)} in all</>],
		]} />
	</Card>;
}

function Limits(p: { all: Limit[]; left: number }) {
	const used = p.all.filter((l) => l.rejected > 0 || l.current > 0);
	const left = p.left + p.all.length - used.length;
	return <Card title="Limits in use">
		<Rows empty="No limit is in use." left={left > 0 && left + " more are empty or less full."}>
			{used.map((l) => {
				const amount = (n: number) => l.kind === "budget" && l.capacity >= 65536 ? bytes(n) : n.toLocaleString("en");
				const share = l.capacity > 0 ? l.current / l.capacity : 0;
				return <Row key={l.name} title={<span class="mono">{l.name}</span>}
					value={amount(l.current) + (l.capacity > 0 ? " of " + amount(l.capacity) : "")}
					about={l.rejected > 0 ? "refused " + count(l.rejected, "time") + "; when full: " + l.policy : ""}>
					<Bar parts={[{ share, kind: share > 0.8 ? "much" : "used" }]} />
				</Row>;
			})}
		</Rows>
	</Card>;
}

/** told writes an event as a sentence. */
function told(e: Event): string {
	const kind = words(e.kind ?? "");
	if (e.gate) {
		return "Gate " + words(e.gate.name) + " " + kind + (e.gate.fix ? ": " + e.gate.fix : "");
	} else if (e.peer) {
		return short(e.peer.id) + " " + kind;
	} else if (e.pin) {
		return "Pin of " + short(e.pin.root) + " " + kind + (e.pin.label ? ", label " + e.pin.label : "");
	} else if (e.transfer) {
		const t = e.transfer;
		return "Fetch of " + short(t.root) + " " + kind + (t.outcome ? ": " + words(t.outcome) + ", " +
			bytes(t.bytes ?? 0) + " in " + duration(t.took_ms ?? 0) : "");
	} else if (e.name) {
		return "Name " + e.name.name + " " + kind;
	} else if (e.durability) {
		return "Copies " + kind + ": " + e.durability.at_risk + " of " + e.durability.objects + " objects at risk";
	} else if (e.reload) {
		return "Configuration " + kind + ": " + (e.reload.error ?? e.reload.keys.join(", "));
	}
	return e.lost ? count(e.lost, "event") + " lost" : e.topic;
}
