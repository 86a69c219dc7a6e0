// Package client speaks a node's local API (SPEC §11): it implements the interface
// of package api over a Unix socket or the admin listener.
//
// # Wire
//
// Queries are GET, everything that changes something is POST. Parameters are
// in the query string; the only request bodies are add's tar, the addresses of
// keep and files, 32 bytes each, and the JSON of faults/set. There are three
// kinds of answer, and a cut connection looks like a complete one in none:
//
//   - JSON: one value with a Content-Length;
//   - NDJSON ("application/x-ndjson"): lines of [api.Line]; the last one has ok or
//     error, and an answer without such a line was cut;
//   - bytes (get, cat): a chunked body described by the header X-Allium-Object
//     and ended by the trailer X-Allium-Status: "ok", or a report. A caller
//     that does not send "TE: trailers" is cut off instead.
//
// An error before the first byte is an RFC 9457 problem. All three forms of
// error carry a [status.Report]; the client turns it back into a
// *status.Error with the outcome the node gave it.
//
// # One request, walked through
//
// `allium get b3:…` calls Client.Get. The client dials the socket of
// [api.SocketPath] (after checking that its directory is the user's own), sends
// GET /api/v1/get?key=b3:… and returns as soon as the header X-Allium-Object
// is there. The command copies Body to its output; at the end Body.Read sees
// the trailer and returns io.EOF, or the error that ended the transfer.
//
// # Invariants
//
// No method outlives its context. An answer is read within bounds: 1 MiB for
// a line and 16 MiB for a JSON value.
package client
