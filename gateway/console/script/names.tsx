// The view Names.

import { between, count, duration } from "./format";
import { Card, Mark, Name, Row, Rows, Tag } from "./parts";
import type { Overview } from "./types";

/** expiry says when a record ends: badly if that is soon. */
function expiry(at: string | undefined, now: string): [Mark, string] {
	if (!at) {
		return ["off", "no record is known"];
	}
	const left = Date.parse(at) - Date.parse(now);
	return [left < 0 ? "bad" : left < 3_600_000 ? "wait" : "good",
		left < 0 ? "expired " + between(at, now) : "expires " + between(at, now)];
}

export function Names(p: { o: Overview }) {
	const v = p.o.names!, now = p.o.at;
	return <div class="cards two">
		<Card title="Own names" note={v.own.length ? String(v.own.length) : ""}>
			<Rows empty="This node publishes no name." left={v.own_left && "There are more: allium name ls lists them."}>
				{v.own.map((n) => {
					const [mark, ends] = expiry(n.not_after, now);
					return <Row key={n.name} mark={n.problem ? "bad" : mark}
						title={<Name of={n.name} label={n.short || undefined} />} value={ends}
						about={<>
							{n.value ? <Name of={n.value} /> : "withdrawn"}{" · "}
							{["seq " + n.seq, "caches keep it " + duration(n.ttl_ms),
								n.sent ? count(n.peers, "peer") + " took it " + between(n.sent, now) : "not sent since the start",
								n.due ? "again " + between(n.due, now) : ""].filter(Boolean).join(" · ")}{" "}
							{n.problem && <Tag is="bad">{n.problem}</Tag>}
							{n.error && <div>{n.error.message}</div>}
						</>} />;
				})}
			</Rows>
		</Card>
		<Card title="Followed names" note={v.watched.length ? String(v.watched.length) : ""}>
			<Rows empty="No reader of events follows a name." left={v.watched_left > 0 && count(v.watched_left, "more name") + "."}>
				{v.watched.map((n) => {
					const [mark, ends] = expiry(n.not_after, now);
					return <Row key={n.name} mark={mark} title={<Name of={n.name} />} value={ends}
						about={<>{n.value && <><Name of={n.value} /> · seq {n.seq} · </>}{count(n.followers, "follower")}</>} />;
				})}
			</Rows>
		</Card>
	</div>;
}
