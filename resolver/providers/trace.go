package providers

import (
	"allium/protocols/record"
	"allium/resolver/trace"
)

// sources are the origins of candidates in the record of a lookup.
var sources = map[record.Origin]trace.Source{
	record.OriginNamed: trace.Named, record.OriginServed: trace.Served,
	record.OriginGossip: trace.Gossip, record.OriginDHT: trace.DHT,
}

// Record lets t record where the candidates come from, and returns s. It is called before
// s is read, and at most once.
func (s *Candidates) Record(t *trace.Lookup) *Candidates {
	s.mu.Lock()
	s.trace = t
	counts := map[record.Origin]int64{}
	for _, p := range s.peers {
		counts[p.origin]++
	}
	s.mu.Unlock()
	for _, o := range []record.Origin{record.OriginNamed, record.OriginServed, record.OriginGossip} {
		if n := counts[o]; n > 0 {
			t.Step(trace.Step{Source: sources[o], Verdict: trace.Hit, Count: n})
		} else if o != record.OriginNamed {
			t.Step(trace.Step{Source: sources[o], Verdict: trace.Miss})
		}
	}
	return s
}
