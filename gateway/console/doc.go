// Package console serves the console of a node, a page of the admin listener that shows how the node does: its gates,
// disk and transfers, its peers, content, names, lookups and reloads, and the network of a testnet.
//
// The page is a script in TypeScript with Preact. It asks for the whole state in one request, the verb Overview of the
// local API, and again for the part that it shows: every few seconds, and soon after an event of the node. It changes
// nothing unless the visitor enters a capability, which the page keeps in memory alone.
//
// Invariants:
//
//   - The page makes no request to another origin, and its policy names the digests of its one script and of its
//     style sheets. No text becomes HTML: the policy takes that ability from the script too.
//   - The page shows nothing that the verbs of the local API do not tell every client of the admin listener.
//   - Page and script have at most 80 KiB compressed.
//
// assets/ is made from script/ and the npm package of Preact by `make web`, and a test makes it again. script/types.ts
// is made from the types of package api by `go test ./gateway/console -run Types -update`.
package console
