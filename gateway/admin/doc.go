// Package admin serves the pages of the listeners (health, readiness, metrics, version, limits),
// the local API as routes under /api/v1, and the mutations under /admin that take JSON and an
// Idempotency-Key. Package api declares the verbs of the local API: most routes are made of those
// values, and the others, which do more than read a request and call the node, stand beside them.
//
// Invariants:
//
//   - The pages wait for nothing and pass no limit.
//   - A streamed answer never looks complete when it was cut: NDJSON ends with a line ok or error,
//     bytes end with a trailer, events end with the event end.
//   - A reader of events that is slow or stands still delays nothing but its own stream.
//   - A request with an Idempotency-Key runs once. Repeating it returns the first answer, for a
//     day or until the node restarts.
//
// One request, walked through: POST /api/v1/fetch?key=b3:…. checkDenied consults the denylist. The
// handler of route decodes the request. sendLines calls runWithProgress, which runs the verb, and so
// api.Node.Fetch, in a goroutine and writes a line of progress every 200 ms. lines.end writes the last
// line, with the result or the error. An error before the first line becomes a problem instead.
package admin
