// Numbers, times and addresses as people read them.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** bytes writes a number of bytes with three digits at least. */
export function bytes(n: number): string {
	let unit = 0;
	while (n >= 1024 && unit < units.length - 1) {
		n /= 1024;
		unit++;
	}
	return (unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2)) + " " + units[unit];
}

/** count writes a number with separators of thousands, and its noun. */
export function count(n: number, one: string, many = one + "s"): string {
	return n.toLocaleString("en") + " " + (n === 1 ? one : many);
}

/** duration writes milliseconds in one unit, or two. */
export function duration(ms: number): string {
	if (ms < 1) {
		return ms <= 0 ? "0 ms" : ms.toFixed(2) + " ms";
	}
	if (ms < 1000) {
		return (ms < 10 ? ms.toFixed(1) : Math.round(ms)) + " ms";
	}
	const s = ms / 1000;
	if (s < 60) {
		return (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
	}
	const steps: [number, string, number, string][] = [
		[60, "min", 1, "s"], [3600, "h", 60, "min"], [86400, "d", 3600, "h"],
	];
	const [size, unit, less, lower] = steps.filter(([size]) => s >= size).pop()!;
	const whole = Math.floor(s / size), rest = Math.floor((s - whole * size) / less);
	return whole + " " + unit + (whole < 10 && rest > 0 ? " " + rest + " " + lower : "");
}

/** between writes the time from one moment to another, such as "3 min ago" or "in 2 d". */
export function between(then: string | undefined, now: string): string {
	if (!then) {
		return "never";
	}
	const ms = Date.parse(now) - Date.parse(then);
	if (Math.abs(ms) < 1000) {
		return "now";
	}
	return ms > 0 ? duration(ms) + " ago" : "in " + duration(-ms);
}

/** clock writes the time of day. */
export function clock(at: string): string {
	return new Date(at).toLocaleTimeString("en-GB");
}

/** short cuts the middle out of an address or an ID. Text that is neither stays whole, up to a length. */
export function short(text: string): string {
	if (/^b3:[0-9a-f]{64}$/.test(text)) {
		return text.slice(0, 11) + "…" + text.slice(-4);
	}
	return text.length > 28 ? text.slice(0, 10) + "…" + text.slice(-6) : text;
}

/** words writes an identifier such as routing_table as words. */
export function words(name: string): string {
	return name.replace(/_/g, " ");
}
