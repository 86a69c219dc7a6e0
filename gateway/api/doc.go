// Package api is a node's local API (SPEC §11) as Go: the types on its wire and
// the interface that a node answers with. It knows no HTTP.
//
// [Node] is the whole API, [Store] the part that needs no network, [Reader] what
// can also be read through a gateway. The gateway serves a Node over the admin
// listener and the Unix socket as /api/v1/<verb>, and package client implements
// the same interface on the other side of the wire: a command is written once and
// runs against a node in its own process, over the socket, or, for [Store],
// against a store that no node runs.
package api
