package providers

import (
	"allium/protocols/dht/probes"
	"allium/protocols/record"
	"allium/resolver/trace"
)

// sources are the origins of candidates in the record of a lookup.
var sources = map[record.Origin]trace.Source{
	record.OriginNamed: trace.Named, record.OriginServed: trace.Served,
	record.OriginGossip: trace.Gossip, record.OriginConnected: trace.Connected, record.OriginDHT: trace.DHT,
}

// Record lets t record where the candidates come from, and returns s. It is called before
// s is read, and at most once.
func (s *Candidates) Record(t *trace.Lookup) *Candidates {
	var named, served, gossip int64
	s.mu.Lock()
	s.trace = t
	for _, p := range s.peers {
		switch p.origin {
		case record.OriginNamed:
			named++
		case record.OriginServed:
			served++
		case record.OriginGossip:
			gossip++
		}
	}
	s.mu.Unlock()
	if named > 0 {
		t.Step(trace.Step{Source: trace.Named, Verdict: trace.Hit, Count: named})
	}
	t.Step(trace.Step{Source: trace.Served, Verdict: verdictOf(served), Count: served})
	t.Step(trace.Step{Source: trace.Gossip, Verdict: verdictOf(gossip), Count: gossip})
	return s
}

// verdictOf returns the verdict of a source that named so many peers.
func verdictOf(peers int64) trace.Verdict {
	if peers == 0 {
		return trace.Miss
	}
	return trace.Hit
}

// note records in t that a lookup uses a remembered result.
func (r *searched) note(t *trace.Lookup) {
	s := trace.Step{Source: trace.Cache, Verdict: trace.Hit, Count: int64(len(r.found)), Lookup: r.by}
	if len(r.found) == 0 {
		s.Verdict = trace.Negative
	}
	if r.err != nil {
		s.Note = r.err.Error()
	}
	t.Step(s)
}

// WalkOf returns the trace of a finder for the record of a search.
func WalkOf(t *probes.Trace) trace.Walk {
	w := trace.Walk{End: t.End, Hops: t.Hops, Asked: t.Probes, Hedges: t.Hedges, Took: t.Took}
	if len(t.Steps) > 0 {
		w.Probes = make([]trace.Probe, len(t.Steps))
	}
	for i, s := range t.Steps {
		w.Probes[i] = trace.Probe{
			Peer: s.Peer, Hop: s.Hop, Hedge: s.Hedge, Start: s.Start, Took: s.Took, Outcome: s.Outcome,
			Closer: s.Closer, Providers: s.Providers,
		}
	}
	return w
}
