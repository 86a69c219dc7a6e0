// Package content serves objects and directories over HTTP: byte ranges, conditional
// requests, verified encodings, directory listings and the first page. It knows nothing
// of listeners, TLS or capabilities.
//
// Invariants:
//
//   - The [Content] verifies every byte before it writes it.
//   - The denylist is consulted before every lookup, and before an answer that needs no lookup.
//   - A script in the content never runs in the gateway's origin.
//   - A request that asks the network holds a permit of the fetch gate from before it asks
//     until its Content is closed.
//
// One request, walked through: GET /b3/b3:…/docs/a.txt with "Range: bytes=0-99". browse
// parses the path (parseTarget), consults the denylist and starts the stall timer
// (withStallTimeout). browseTarget looks the path up in the manifests (lookup, manifests)
// and finds a file. content opens the file (open): a local object at once, any other after
// AcquireFetch got a permit. It evaluates the conditions, parses the range (byterange.Parse)
// and picks the media type (setContentType). copyRange proves the first chunk group and
// writes it to the body, and that write sends the header (body.begin). When the handler
// returns, the Content is closed and the permit is released.
package content
