// Package discovery serves what the node knows of an object: GET /resolve/{key} and
// GET /providers/{b3} (SPEC §9).
//
// Invariants:
//
//   - The denylist is asked before the node is.
//   - A remembered answer is sent at once. Any other answer needs the network and so
//     a permit of gateway.misses, as a fetch does. So searches never make requests for
//     local content wait.
//   - Unknown, repeated and malformed parameters are refused.
//
// One request: [Handlers.Endpoints] puts the routes into the table. The listener admits
// the request, checks its parameters and calls the handler. It parses the key and asks
// [Index.Cached]. Without an answer it gives up the request's place among the admitted
// ones, waits for a permit and calls [Index.Resolve], which ends within
// resolver.deadline or the request's own Request-Timeout.
package discovery
