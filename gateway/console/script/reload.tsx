// The view Reload.

import { useState } from "preact/hooks";
import { between, count, duration, words } from "./format";
import { Card, Mark, Row, Rows, Tag } from "./parts";
import { Acts, Sure } from "./token";
import type { ConfigChange, Overview, Reloaded } from "./types";

const results: Record<string, Mark> = {
	running: "wait", applied: "good", unchanged: "off", rejected: "bad", reverted: "bad",
};

export function Reload(p: { o: Overview; acts: Acts }) {
	const v = p.o.reload!, { acts } = p;
	const [tried, setTried] = useState<Reloaded | null>(null);
	const run = (dry: boolean) => void acts.run<Reloaded>("/admin/reload", { dry_run: dry }, (r) =>
		(dry ? "A reload would be " : "The reload is ") + r.result + ": " + count(r.changed.length, "changed key") + ", " +
		r.waiting.length + " of them wait for a restart.").then(setTried);
	return <div class="cards two">
		<Card title="Reload">
			<p class="quiet">A reload reads {v.file ? <code class="wrap">{v.file}</code> : "the layers of the configuration"} again and
				puts the new values of hot keys in force. If a gate shuts soon after, the old values come back.</p>
			{acts.token ? <div class="acts">
				<button type="button" class="light" disabled={acts.busy} onClick={() => run(true)}>Dry run</button>
				<Sure label="Reload" about="the configuration" disabled={acts.busy} act={() => run(false)} />
			</div> : <p class="quiet">A token with <code>reload</code> allows a dry run, which shows the difference, and a reload.</p>}
			{tried && <One r={tried} at={p.o.at} open />}
		</Card>
		<Card title="Latest reloads" note={v.reloads.length ? String(v.reloads.length) : ""}>
			<Rows empty="The configuration was not reloaded since the start.">
				{v.reloads.map((r) => <li key={r.token}><One r={r} at={p.o.at} /></li>)}
			</Rows>
		</Card>
		<Card title="Not a default" note={v.values.length ? String(v.values.length) : ""}>
			<Rows empty="Every key has its default.">
				{v.values.map((k) => <Row key={k.key} title={<code class="wrap">{k.key}</code>}
					about={<><code class="wrap">{k.value || "(empty)"}</code> · from the {k.source}{k.hot ? " · hot" : ""}</>} />)}
			</Rows>
		</Card>
	</div>;
}

function One(p: { r: Reloaded; at: string; open?: boolean }) {
	const r = p.r;
	return <details class="reload" open={p.open}>
		<summary><Tag is={results[r.result]}>{r.result}</Tag> {r.dry_run ? "dry run " : ""}{between(r.at, p.at)},{" "}
			{count(r.changed.length, "changed key")}</summary>
		{r.gate && <p class="quiet">Taken back, because the gate {words(r.gate.name)} shut: {r.gate.fix}</p>}
		<Difference of={r.changed} />
		<ul class="rows">{r.tasks.map((t) => <Row key={t.name} title={t.name} value={t.took_ms ? duration(t.took_ms) : ""}
			mark={t.state === "done" ? "good" : t.state === "failed" || t.state === "stuck" ? "bad" : "off"}
			about={t.state + (t.error ? ": " + t.error.message : "")} />)}</ul>
	</details>;
}

function Difference(p: { of: ConfigChange[] }) {
	return p.of.length === 0 ? null : <ul class="rows diff">{p.of.map((c) => <li key={c.key}>
		<div class="head"><code class="wrap">{c.key}</code>{c.hot ? <Tag is="good">hot</Tag> : <Tag is="wait">after a restart</Tag>}</div>
		<div><del>{c.old || "(empty)"}</del> becomes <ins>{c.new || "(empty)"}</ins></div>
	</li>)}</ul>;
}
