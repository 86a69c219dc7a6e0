// Package tracing makes the spans of requests and sends them to a collector, as OTLP over HTTP with JSON.
//
// Invariants:
//
//   - A nil [Tracer] and a nil [Span] do nothing and allocate nothing: without a collector a request
//     costs nothing more.
//   - Nothing waits for the collector. At most 2,048 spans wait for it; what does not fit is dropped and
//     counted. Spans that peers asked for take at most half of that.
//   - A span has no address, name or key of what was asked for, and no peer.
//
// One request: [Tracer.Begin] begins a trace, if the sampling chooses it, and puts its span into the
// context. Packages that it passes through add a [Child]. A request to a peer carries
// [Span.Traceparent], and the peer's [Tracer.Accept] begins a span of the same trace. [Span.End] hands
// the span to the goroutine of [Tracer.Run], which sends batches.
package tracing
