// Package proof serves the page on which a browser proves an object before it saves or shows it, /verify/b3:…, and
// the module with which other pages do that, /verify.mjs.
//
// The page asks its own gateway, and those that its link names, for verified encodings of spans of the object, several
// at once. Workers hash every chunk group and compare it with the address. If a group does not prove, the page shows
// its place and the gateway that sent it, and does not ask that gateway again.
//
// Invariants:
//
//   - No byte that the address does not prove leaves a worker, so none is saved or shown.
//   - The page's policy runs its one script by digest. Its workers request nothing but the page's own gateway and
//     those of its link. Nothing comes from elsewhere.
//   - At most 32 MiB of an object wait to be written to a file or to the browser's downloads, whatever the object's
//     size.
//   - Page and scripts have at most 40 KiB as they are sent.
//
// The page cannot prove itself: it comes from the gateway, and one that lies could send another page. docs/friend.md
// says what to do about that.
//
// assets/ is made from script/ by `make web`, and a test makes it again. The WebAssembly is made by script/kernel.ts
// when it runs.
package proof
