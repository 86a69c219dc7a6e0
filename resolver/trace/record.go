package trace

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Kind is the purpose of a lookup.
type Kind string

// The kinds.
const (
	Open      Kind = "open"      // to read an object, or a range of it
	Fetch     Kind = "fetch"     // to store an object
	Tree      Kind = "tree"      // to store a directory and everything below it
	Providers Kind = "providers" // to find the peers that have an object
	Name      Kind = "name"      // to find what a name points to
)

// Key is the object or the name that was looked up.
type Key struct {
	Root b3.Root
	Name string // empty for an object; at most MaxName bytes
}

// String returns the name, or else the object's address.
func (k Key) String() string {
	if k.Name != "" {
		return k.Name
	}
	return k.Root.String()
}

// Source is a place that a lookup asks.
type Source string

// The sources.
const (
	Memory    Source = "memory"    // objects in RAM
	Store     Source = "store"     // the node's own store
	Partial   Source = "partial"   // the part of the object that an earlier fetch stored
	Cache     Source = "cache"     // results of earlier lookups
	Named     Source = "named"     // peers that the caller named
	Served    Source = "served"    // the peer that served the object or its directory
	Gossip    Source = "gossip"    // peers that announced the object or its directory
	Connected Source = "connected" // connected peers that said that they have the object
	Index     Source = "index"     // the index of a peer that the operator chose
	DHT       Source = "dht"       // a search in the DHT
	DNS       Source = "dns"       // the DNS, for a domain
	Permit    Source = "permit"    // the gate that bounds the fetches, or the tree fetches
)

// Verdict is the answer of a source.
type Verdict string

// The verdicts.
const (
	Hit      Verdict = "hit"      // it has the answer
	Miss     Verdict = "miss"     // it does not have it
	Negative Verdict = "negative" // it says that there is none
	Asked    Verdict = "asked"    // the request went out
	Granted  Verdict = "granted"  // the permit was granted after a wait
	Failed   Verdict = "failed"   // the source failed, or refused the request
)

// Record describes one lookup. The times of its parts count from the lookup's start unless they
// say otherwise.
type Record struct {
	Head
	Bytes    int64 // verified bytes that arrived from peers and were missing
	Callers  int   // calls that shared the lookup
	Steps    []Step
	Searches []Search
	Peers    []Peer
	Tree     *Counts // nil unless Kind is Tree
	Omitted  Omitted
}

// AtOnce reports whether one source answered the lookup and nothing else was asked.
func (r *Record) AtOnce() bool {
	return len(r.Steps) == 1 && r.Steps[0].Verdict == Hit && len(r.Peers) == 0 && len(r.Searches) == 0
}

// Head identifies a lookup and says how it ended.
type Head struct {
	ID     status.LookupID
	Parent status.LookupID // the fetch of a directory, or the lookup of a name, that led to it; zero for none
	Kind   Kind
	Key    Key
	Start  time.Time

	Took    time.Duration // so far, while it runs
	Ready   time.Duration // until the first verified bytes, or the first provider of a search; 0: never
	Budget  time.Duration // the deadline of the lookup; 0: it has none
	Running bool
	Outcome status.Outcome // valid when it has ended
	Message string         // the error's text, cut; empty on success
}

// Step is one thing that a lookup did, other than to ask a provider.
type Step struct {
	At      time.Duration
	Took    time.Duration // 0: at once
	Source  Source
	Verdict Verdict
	Count   int64           // peers, or bytes of Partial
	Lookup  status.LookupID // the lookup that found a cached answer; zero for none
	Note    string          // an error's text, cut
}

// Search is one search in the DHT, for providers or for a name. Several lookups may share it.
type Search struct {
	Key     Key  // the object or its directory, or a name
	Joined  bool // another lookup began it
	Start   time.Time
	Took    time.Duration
	Running bool // it had not ended when the lookup ended
	Found   int  // providers, or records of the name
	Outcome status.Outcome
	Message string // the error's text, cut; empty on success
	Walk    Walk
}

// Walk describes the course of a search in the DHT. It is empty if records that this node holds were enough.
type Walk struct {
	End     string // why it ended, such as satisfied or converged
	Hops    int    // hop of the last response that counted
	Asked   int    // probes sent, hedges included
	Hedges  int    // probes sent because an earlier one was late
	Took    time.Duration
	Probes  []Probe
	Omitted int // probes left out
}

// Probe is one request of a search.
type Probe struct {
	Peer      peer.ID
	Hop       int
	Hedge     bool
	Start     time.Duration // since the start of the walk
	Took      time.Duration
	Outcome   string // ok, timeout, late, canceled, or the outcome of the failed request
	Closer    int    // closer peers that it named
	Providers int    // providers that no earlier response named
}

// Peer is one provider that was asked, or was about to be.
type Peer struct {
	ID      peer.ID
	Origin  Source        // how it became known
	Found   time.Duration // when the lookup took it from its list
	Asked   int           // requests that ended
	Bytes   int64         // verified bytes that were missing
	Extra   int64         // verified bytes that were here already
	Rate    float64       // measured bytes per second, of all its transfers; 0: unknown
	RTT     time.Duration // measured time to the first byte of an answer; 0: unknown
	Hedges  Hedges
	GaveUp  *GaveUp // nil: it was not given up
	Spans   []Span  // its first requests and its latest
	Omitted int     // requests between these
}

// GaveUp is why a provider was not asked any more.
type GaveUp struct {
	At      time.Duration
	Outcome status.Outcome
	Message string // cut
}

// Hedges counts requests that a provider got because another one's was late.
type Hedges struct{ Won, Lost, Failed int }

// Span is one request to a provider.
type Span struct {
	At      time.Duration
	Sent    time.Duration // since At: when it went out, after the peer's other requests
	First   time.Duration // since At: the first item of the answer; 0: there was none
	Took    time.Duration // since At: its end
	From    int64         // the first byte asked for; 0 in a request for many objects
	To      int64         // the byte after the last
	Objects int           // objects asked for in a request for many; 0 in one for a range
	Bytes   int64         // verified bytes that were missing
	Extra   int64         // verified bytes that were here already
	Hedge   string        // won, lost or failed; empty if it hedged no other request
	Outcome status.Outcome
	Message string // the error's text, cut
}

// Counts are the totals of a tree fetch.
type Counts struct {
	Objects, Bytes        int64 // named by the directories that were read
	Fetched, FetchedBytes int64 // from peers
	Skipped               int64 // local, or seen before
	Failures              []Failure
}

// Failure is an object of a directory that could not be fetched.
type Failure struct {
	Root    b3.Root
	Lookup  status.LookupID // the lookup of a large file; zero for others
	Outcome status.Outcome
	Message string // cut
}

// Omitted counts what a record leaves out.
type Omitted struct{ Steps, Searches, Peers, Spans, Failures int }
