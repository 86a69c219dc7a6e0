// The token that allows changes. It stays in the memory of the page.

import { useState } from "preact/hooks";
import { change } from "./client";

/** Acts makes changes, and says what became of the last one. */
export interface Acts {
	token: string;
	busy: boolean;
	/** run posts a change; done says in a sentence what it did. It returns the answer, or null when it failed. */
	run<T>(path: string, body: object, done: (answer: T) => string): Promise<T | null>;
}

/** Outcome is a sentence about the last change. */
export interface Outcome {
	text: string;
	failed: boolean;
}

/** useActs returns what makes changes with a token. after is called when one was made. */
export function useActs(token: string, tell: (o: Outcome) => void, after: () => void): Acts {
	const [busy, setBusy] = useState(false);
	return {
		token, busy,
		async run<T>(path: string, body: object, done: (answer: T) => string): Promise<T | null> {
			setBusy(true);
			tell({ text: "Waiting for the node…", failed: false });
			try {
				const answer = await change<T>(path, body, token);
				tell({ text: done(answer), failed: false });
				after();
				return answer;
			} catch (err) {
				tell({ text: err instanceof Error ? err.message : String(err), failed: true });
				return null;
			} finally {
				setBusy(false);
			}
		},
	};
}

/** TokenForm takes a token in, or forgets it. */
export function TokenForm(p: { token: string; set: (token: string) => void }) {
	const [text, setText] = useState("");
	if (p.token) {
		return <p class="token"><span>A token is set: what it allows can be changed here.</span>
			<button type="button" class="light" onClick={() => p.set("")}>Forget it</button></p>;
	}
	return <details class="token">
		<summary>Read only. Enter a token to pin, unpin, collect or reload</summary>
		<form onSubmit={(e) => {
			e.preventDefault();
			p.set(text.trim());
			setText("");
		}}>
			<label for="token">Token, from <code>allium token mint --op pin,unpin,gc,reload --expires 1h</code></label>
			<input id="token" type="password" class="mono" autocomplete="off" required value={text}
				onInput={(e) => setText(e.currentTarget.value)} />
			<button>Use it</button>
		</form>
		<p class="quiet">It stays in the memory of this page until you leave it or forget it.</p>
	</details>;
}

/** Sure is a button that asks once more. */
export function Sure(p: { label: string; about: string; disabled?: boolean; act: () => void }) {
	const [asked, setAsked] = useState(false);
	if (!asked) {
		return <button type="button" class="light" disabled={p.disabled} aria-label={p.label + " " + p.about}
			onClick={() => setAsked(true)}>{p.label}</button>;
	}
	return <span class="sure">
		<button type="button" disabled={p.disabled} aria-label={"Yes: " + p.label + " " + p.about} onClick={() => {
			setAsked(false);
			p.act();
		}}>Yes, {p.label.toLowerCase()}</button>
		<button type="button" class="light" onClick={() => setAsked(false)}>No</button>
	</span>;
}
