// Package api defines a node's local API (SPEC §11) as Go types and interfaces: the JSON types, the
// methods that a node offers, and one value for each verb. It serves and sends nothing itself.
//
// [Node] is the whole API, [Store] the part that needs no network, and [Reader] the part that also
// works through a gateway. The gateway serves a Node as /api/v1/<verb> on the admin listener and
// the Unix socket. Package client implements the same interfaces on the other side. So a command
// is written once, and runs against a node in its own process, over the socket, or, for [Store],
// against the store of a node that does not run.
//
// A [Verb] has the path, the words and the types of a request, and the method of Node that answers it.
// [Verbs] lists them. The gateway makes a route and its documentation of each, and [Remote], which a
// client embeds, calls them. The fields of a request say in tags which parameters they are ([Params]),
// so what the client encodes is what the route decodes.
//
// One request, walked through: [Remote.Ping] gives the value of its verb a request.
// EncodeQuery writes its field as "peer=12D3…", and the [Transport] sends POST /api/v1/ping. There
// the route decodes the same type and calls the Value of the verb, which calls Ping of the Node.
//
// The comments of the types and their fields are the descriptions in openapi.json.
package api
