// The view Peers.

import { between, bytes, count, duration } from "./format";
import { Card, Facts, Mark, Name, Row, Rows, Tag } from "./parts";
import type { Overview } from "./types";

const from: Record<string, [Mark, string]> = {
	anyone: ["good", "Anyone can dial this node"],
	unconfirmed: ["wait", "Nobody has confirmed that this node can be dialled"],
	relay: ["wait", "This node is reached through a relay alone"],
	lan: ["wait", "This node is reached from local networks"],
	machine: ["wait", "This node is reached from this machine"],
	nobody: ["off", "This node listens for nobody"],
};

const breakers: Record<string, [Mark, string]> = {
	half_open: ["wait", "breaker: a few requests pass"], open: ["bad", "breaker open: no request passes"],
};

const nat: Record<string, string> = {
	endpoint_independent: "holes can be punched", endpoint_dependent: "mostly no holes can be punched",
};

export function Peers(p: { o: Overview }) {
	const v = p.o.peers!, [mark, reach] = from[v.reach.from] ?? ["off", v.reach.from];
	const relayed = v.peers.filter((c) => c.relayed).length;
	return <div class="side"><div>
		<Card title="Reach">
			<p class="verdict"><Tag is={mark}>{v.reach.from}</Tag> {reach}.</p>
			{v.reach.advice.map((a) => <p key={a} class="quiet">{a}</p>)}
			<Facts of={[
				["Confirmers", v.reach.confirmers + " of " + count(v.reach.peers, "peer")],
				["Router, UDP", nat[v.reach.nat.udp] ?? "not known"],
				["Router, TCP", nat[v.reach.nat.tcp] ?? "not known"],
				["Relays", (v.reach.relays ? "relays for others" : "does not relay for others") +
					"; " + relayed + " of its connections are relayed"],
				["Table", v.table.have + " peers that count, of " + v.table.need + " needed, in " +
					count(v.table.networks, "network")],
				["Remembered", count(v.seeds.remembered, "peer")],
			]} />
		</Card>
		<Card title="Addresses">
			<Rows empty="This node listens on no address.">
				{v.reach.addrs.map((a) => <Row key={a.addr}
					mark={a.state === "confirmed" ? "good" : a.state === "unreachable" ? "bad" : "off"}
					title={<code class="wrap">{a.addr}</code>}
					about={a.state + ", from " + a.via + (a.announced ? "" : "; peers are not told")} />)}
			</Rows>
		</Card>
		<Card title="Seeds" note={v.seeds.seeds.length ? String(v.seeds.seeds.length) : ""}>
			<Rows empty="No seed is configured.">
				{v.seeds.seeds.map((s) => <Row key={s.id} mark={s.connected ? "good" : s.tries > 0 ? "bad" : "off"}
					title={<Name of={s.id} />} value={s.connected ? "connected" : "not connected"}
					about={s.connected ? "from the " + s.source : (s.last_error ? s.last_error + "; " : "") +
						count(s.tries, "try", "tries") + ", last reached " + between(s.last_success, p.o.at)} />)}
			</Rows>
		</Card>
	</div><div>
		<Card title="Connections" note={String(v.peers.length + v.peers_left)}>
			<Rows empty="No peer is connected."
				left={v.peers_left > 0 && count(v.peers_left, "more connection") + "."}>
				{v.peers.map((c) => {
					const breaker = breakers[c.breaker];
					return <Row key={c.id + c.addr} mark={breaker?.[0] ?? "good"} title={<Name of={c.id} />}
						value={c.rtt_ms ? duration(c.rtt_ms) + " RTT" : "RTT not measured"}
						about={<>
							{[c.direction === "in" ? "dialled us" : "we dialled", c.relayed ? "through a relay" : c.transport,
								"for " + duration(c.age_ms), count(c.streams, "stream"), c.rate ? bytes(c.rate) + "/s" : "",
								c.bucket === null ? "not in the table" : "bucket " + c.bucket, c.agent ?? "",
							].filter(Boolean).join(" · ")}{" "}
							{c.busy && <Tag is="wait">busy</Tag>}
							{breaker && <Tag is={breaker[0]}>{breaker[1]}</Tag>}
						</>} />;
				})}
			</Rows>
		</Card>
	</div></div>;
}
