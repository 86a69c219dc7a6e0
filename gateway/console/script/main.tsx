// The console: which view is shown, and what is known of the node.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { State, Watch } from "./client";
import { Content } from "./content";
import { Lookups } from "./lookups";
import { Names } from "./names";
import { Now } from "./now";
import { Dot, Name, Safe } from "./parts";
import { Peers } from "./peers";
import { Reload } from "./reload";
import { Testnet } from "./testnet";
import { Outcome, TokenForm, useActs } from "./token";

const views: [string, string][] = [
	["now", "Now"], ["peers", "Peers"], ["content", "Content"], ["names", "Names"], ["lookups", "Lookups"],
	["reload", "Reload"], ["testnet", "Testnet"],
];

function chosen(): string {
	const hash = location.hash.slice(1);
	return views.some(([id]) => id === hash) ? hash : "now";
}

function Console(p: { watch: Watch; state: State }) {
	const { state } = p, o = state.overview;
	const [view, setView] = useState(chosen());
	const [token, setToken] = useState("");
	const [outcome, setOutcome] = useState<Outcome | null>(null);
	const acts = useActs(token, setOutcome, () => p.watch.look());
	const main = useRef<HTMLElement>(null);
	useEffect(() => {
		const moved = () => {
			setView(chosen());
			setOutcome(null);
			main.current?.focus();
		};
		addEventListener("hashchange", moved);
		return () => removeEventListener("hashchange", moved);
	}, []);
	useEffect(() => p.watch.show(view), [view]);
	const shown = views.filter(([id]) => id !== "testnet" || o?.testnet);
	const title = shown.find(([id]) => id === view)?.[1] ?? "Now";
	useEffect(() => {
		document.title = title + " · allium";
	}, [title]);
	return <>
		<a class="skip" href="#view" onClick={(e) => {
			e.preventDefault();
			main.current?.focus();
		}}>Skip to the view</a>
		<header>
			<div class="top">
				<a class="brand" href="#now"><img src="/favicon.ico" alt="" />allium</a>
				{o && <span class="node">node <Name of={o.id} /></span>}
				<span class="state-line" role="status">
					{state.problem ? <><Dot is="bad" />{o ? "Shown is what was: " : ""}{state.problem}</>
						: !o ? "Asking the node…"
							: o.ready.ready ? <><Dot is="good" />Ready</>
								: <><Dot is="bad" />Not ready</>}
				</span>
			</div>
			<nav aria-label="Views"><ul>
				{shown.map(([id, name]) => <li key={id}>
					<a href={"#" + id} aria-current={id === view ? "page" : undefined}>{name}</a>
				</li>)}
			</ul></nav>
			<TokenForm token={token} set={(t) => {
				setToken(t);
				setOutcome(null);
			}} />
			<p role="status" class={"outcome" + (outcome?.failed ? " failed" : "")}>{outcome?.text}</p>
		</header>
		<main id="view" ref={main} tabIndex={-1} class={state.problem ? "old" : ""}>
			<h1 class="hidden">{title}</h1>
			{o && <Safe key={view}>
				{view === "now" && o.now && <Now state={state} o={o} />}
				{view === "peers" && o.peers && <Peers o={o} />}
				{view === "content" && o.content && <Content o={o} acts={acts} />}
				{view === "names" && o.names && <Names o={o} />}
				{view === "lookups" && o.lookups && <Lookups o={o} />}
				{view === "reload" && o.reload && <Reload o={o} acts={acts} />}
				{view === "testnet" && o.testnet && <Testnet v={o.testnet} />}
			</Safe>}
		</main>
	</>;
}

const root = document.getElementById("console")!;
root.replaceChildren();
const watch = new Watch((state) => render(<Console watch={watch} state={state} />, root));
render(<Console watch={watch} state={watch.state} />, root);
