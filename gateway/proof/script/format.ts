// Numbers as people read them.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** bytes writes a number of bytes with three digits. */
export function bytes(n: number): string {
	let unit = 0;
	for (; n >= 1024 && unit < units.length - 1; unit++) {
		n /= 1024;
	}
	return (unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2)) + " " + units[unit];
}

/** percent returns how much of the whole a part is, rounded down. */
export function percent(part: number, whole: number): number {
	return whole > 0 ? Math.floor(100 * part / whole) : 100;
}
