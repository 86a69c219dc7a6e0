package providers

import (
	"time"

	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/record"
	"allium/protocols/status"
)

// SourceCache is the source of an answer that was remembered. The other sources are
// the origins of providers.
const SourceCache record.Origin = "cache"

// Provider is a provider in an answer.
type Provider struct {
	record.Provider
	Confidence answer.Confidence
	Region     string        // where it says that it is; empty: it does not say
	RTT        time.Duration // 0: not measured
	Text       Text
}

// Text is the text of a provider in answers. It is made once for an answer, because making
// it costs more than finding a remembered answer.
type Text struct {
	ID    string
	Addrs []string // never nil
}

// Answer names the providers of an object. It is shared: the caller does not change
// what it refers to.
type Answer struct {
	Target     b3.Root
	Providers  []Provider        // the best first, see [Rank]; at least one
	Source     record.Origin     // cache, or the origin of the best provider
	Confidence answer.Confidence // the highest of a provider
	Age        time.Duration     // since the network was asked
	TTL        time.Duration     // how long the answer is remembered from now on; at least 0
	LookupID   status.LookupID
}

// Query says how to find providers, and which ones are wanted.
type Query struct {
	Limit        int           // most providers of the answer, 1 to MaxProviders; 0: DefaultLimit
	Region       string        // only providers that say they are in this region; empty: all
	MinFreshness time.Duration // only providers whose record was signed at most so long ago; 0: all

	// Fresh asks the network. It uses neither the cache nor this node's store, its records and the announcements it has
	// heard.
	Fresh bool
	// All goes on until Limit providers are known or everyone was asked. Otherwise the
	// search ends soon after the first provider is known.
	All bool
	// PeersOnly leaves out this node.
	PeersOnly bool
	// Via is a directory that contains the object, or zero. The peer that served it may
	// have the object.
	Via b3.Root
	// Trace receives the steps of the DHT's lookup, unless it is nil. A search with a
	// trace shares no lookup, and its answer is not remembered.
	Trace *probes.Trace
}

// DefaultLimit is the number of providers in an answer when a query has no limit.
const DefaultLimit = 5

// limit returns the number of providers that the query wants.
func (q *Query) limit() int {
	if q.Limit <= 0 {
		return DefaultLimit
	}
	return min(q.Limit, MaxProviders)
}

// filters reports whether the query may leave out providers.
func (q *Query) filters() bool { return q.Region != "" || q.MinFreshness > 0 || q.PeersOnly }

// wants reports whether a provider passes the query's filters. now is the clock that
// dates records.
func (q *Query) wants(p *Provider, now time.Time) bool {
	switch {
	case p.Origin == record.OriginLocal:
		return !q.PeersOnly && (q.Region == "" || p.Region == q.Region)
	case q.Region != "" && p.Region != q.Region:
		return false
	case q.MinFreshness > 0:
		age := ageOf(&p.Provider, now)
		return age >= 0 && age <= q.MinFreshness
	}
	return true
}

// ageOf returns the time since the record of a provider was signed, below 0 when
// there is no record. A record from the future has age 0.
func ageOf(p *record.Provider, now time.Time) time.Duration {
	if p.Origin == record.OriginLocal {
		return 0
	}
	if p.Seq == 0 || p.Seq > uint64(now.UnixMilli())+uint64(time.Hour/time.Millisecond) {
		return -1
	}
	return max(0, now.Sub(time.UnixMilli(int64(p.Seq))))
}

// chosen returns the providers of an answer that a query wants, at most its limit.
// It does not allocate when it takes them all. clock dates records.
func (q *Query) chosen(all []Provider, clock func() time.Time) []Provider {
	n := min(len(all), q.limit())
	if !q.filters() {
		return all[:n:n]
	}
	now := clock()
	var some []Provider
	for i := range all {
		if q.wants(&all[i], now) {
			if some = append(some, all[i]); len(some) == q.limit() {
				break
			}
		}
	}
	return some
}

// enough reports whether a remembered answer satisfies the query. some is the number of its providers that pass the
// filters.
func (q *Query) enough(r *ranking, some int) bool {
	if q.All {
		return r.complete || some >= q.limit()
	}
	return some > 0 && (r.usable || r.complete)
}

// best returns the highest confidence of providers.
func best(all []Provider) (c answer.Confidence) {
	for i := range all {
		switch all[i].Confidence {
		case answer.Served:
			return answer.Served
		case answer.Signed:
			c = answer.Signed
		case answer.Hint:
			if c == "" {
				c = answer.Hint
			}
		}
	}
	return c
}
