package trace

import "allium/internal/tracing"

// spanOf begins the span of a lookup: below that of the lookup or else of the request that led to it, which may be nil.
func (r *Ring) spanOf(kind Kind, above *Lookup, of *tracing.Span) *tracing.Span {
	if above != nil && above.span != nil {
		return above.span.Child(string(kind))
	}
	return r.tracer.Under(of, string(kind))
}

// endSpan ends the span of a lookup that has ended, and adds one for each search in the DHT. The spans have
// neither the key nor the peers; the ID leads to them, at this node.
func endSpan(l *Lookup) {
	if l.span == nil {
		return
	}
	rec := l.record()
	for _, s := range rec.Searches {
		l.span.Past("search", s.Start, s.Took, s.Outcome)
	}
	l.span.Text("allium.lookup_id", l.id.String())
	l.span.Number("allium.bytes", rec.Bytes)
	l.span.Number("allium.providers", int64(len(rec.Peers)))
	l.span.EndAs(rec.Outcome)
}
