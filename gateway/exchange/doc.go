// Package exchange provides what HTTP handlers and listeners share: the route table's
// entries, a request's parameters and body, the response, and the problem that an error
// becomes.
//
// Handlers and listeners import this package and never each other. A listener makes a
// [Response] and decides whether the client may make the request. It knows a handler only
// as the Serve function of an [Endpoint]. A handler gets the Response, which carries the
// client's grant, the audit log, and a [Transport] to the client.
//
// Invariants:
//
//   - [Response.Problem] is the only place that turns an error into an answer, and
//     [Sentence] the only place that turns it into words.
//   - Every body is read within limits: of bytes, of time and of decompressed size.
//   - A handler's error before the first byte becomes a problem. After the first byte the
//     listener cuts the connection.
//
// One request, walked through: POST /o with a gzip body. The router finds its [Endpoint]
// and parses the query ([ParseParams]). The handler opens the body ([Bodies.Open]), which
// sets a deadline for each read, and decodes it ([Bodies.Decode]). It checks the length
// against the client's grant ([Caller.CheckLength], [Caller.LimitBody]) and records the
// mutation ([Response.Record]). It answers with [Response.SendJSON], or returns an error that
// [Response.Problem] sends as application/problem+json or as a page.
package exchange
