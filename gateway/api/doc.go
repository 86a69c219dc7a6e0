// Package api defines a node's local API (SPEC §11) as Go types and interfaces: the JSON types, and
// the methods that a node offers. It contains no HTTP.
//
// [Node] is the whole API, [Store] the part that needs no network, and [Reader] the part that also
// works through a gateway. The gateway serves a Node as /api/v1/<verb> on the admin listener and
// the Unix socket. Package client implements the same interfaces on the other side. So a command
// is written once, and runs against a node in its own process, over the socket, or, for [Store],
// against the store of a node that does not run.
//
// The comments of the types and their fields are the descriptions in openapi.json.
package api
