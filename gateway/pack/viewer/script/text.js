// Texts of the pack's author, and the page's own.

const longest = 200;

// shown returns an author's text as the page shows it: on one line, at most longest characters of it, and
// characters that are not seen, or change the direction of writing, as numbers.
export function shown(text) {
  const all = [...String(text).slice(0, 2 * longest)];
  const part = all.length > longest ? all.slice(0, longest).join("") + "…" : all.join("");
  return part.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) =>
    `\\u{${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}}`);
}

// element returns a new element with a text and a class, both of which may be left out.
export function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// count returns a number with its noun: "1 tile", "2 tiles".
export function count(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}
