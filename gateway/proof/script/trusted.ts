// The policy by which the page may load its two scripts. The page's Content-Security-Policy allows no other.

interface Types {
	createPolicy(name: string, rules: {createScriptURL(url: string): string}): {createScriptURL(url: string): unknown};
}

const types = (globalThis as {trustedTypes?: Types}).trustedTypes;
const policy = types?.createPolicy("own", {
	createScriptURL(url): string {
		const {origin, pathname} = new URL(url, location.href);
		if (origin !== location.origin || !/\/verify\/assets\/(worker|save)-[0-9a-f]{16}\.js$/.test(pathname)) {
			throw new TypeError(`${url} is no script of this page`);
		}
		return url;
	},
});

/** scriptURL makes a URL one that may be loaded as a script. */
export function scriptURL(url: string): unknown {
	return policy ? policy.createScriptURL(url) : url;
}
