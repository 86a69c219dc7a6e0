// Package client speaks a node's local API (SPEC §11): it implements the interface
// of package api over a Unix socket or the admin listener.
//
// # Wire
//
// Changes, and all requests with a body, are POST. Most other requests are GET.
// Parameters are in the query string. Bodies are the tar of add, the addresses of
// keep and files (32 bytes each), and the JSON of faults/set and of the admin
// mutations. There are four kinds of answer. In each the client can tell a cut
// answer from a complete one:
//
//   - JSON: one value with a Content-Length;
//   - NDJSON ("application/x-ndjson"): lines of [api.Line]. The last one has ok or
//     error; an answer without such a line was cut;
//   - server-sent events (events), each with the JSON of an [api.Event]. The last one
//     is end, with a report; an answer without it was cut;
//   - bytes (get, cat, files): a chunked body. The header X-Allium-Object describes
//     it, and the trailer X-Allium-Status ends it with "ok" or a report. If a
//     request lacks "TE: trailers", the node closes the connection on an error.
//
// An error before the first byte is an RFC 9457 problem. All forms of
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
// A large file on the Unix socket is not copied through it. The command creates the output and
// calls the WriteFile of the stream, which passes the open file to the node (get/file, over a new
// connection) and waits until the node has written it, or has moved a file of its store there. A
// large file to add is passed in the same way (add/file); a node that does not know that verb gets
// a tar.
//
// # Invariants
//
// A method ends when its context ends. The client reads at most 1 MiB for a line
// and 16 MiB for a JSON value.
package client
