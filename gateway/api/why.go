package api

import (
	"time"

	"allium/protocols/b3"
)

// MaxOtherLookups is the most lookups that each list of Why has beside the one that it shows.
const MaxOtherLookups = 20

// Why is the record of one lookup: what it asked, who answered, and where the time
// went.
type Why struct {
	Lookup Lookup `json:"lookup"`
	// lookups that this one led to, the latest first, at most 20; only of the lookup of a name
	Parts []LookupHead `json:"parts,omitempty"`
	// of the same key, the latest first, at most 20; only where a key was given
	Others []LookupHead `json:"others,omitempty"`
	Film   bool         `json:"film,omitempty"` // Film has what Go's execution tracer saw during the lookup
}

// Film is the window of Go's execution tracer at the end of a lookup that took more than 4 times the p99 of its
// class.
type Film struct {
	ID    string `json:"id"`
	Trace []byte `json:"trace"` // for `go tool trace`; at most 8 MiB
}

// LookupHead identifies a lookup and says how it ended.
type LookupHead struct {
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"` // the fetch of a directory, or the lookup of a name, that led to it
	// open (to read an object), fetch (to store it), tree (to store a directory with everything below), providers (to
	// find the peers that have it), name (to find its address)
	Kind  string    `json:"kind"`
	Key   string    `json:"key"` // an address, or a name
	Start time.Time `json:"start"`

	TookMS float64 `json:"took_ms"` // so far, while it runs
	// until the first verified bytes, or the first provider that was found; 0: there were none
	ReadyMS  float64 `json:"ready_ms,omitempty"`
	BudgetMS float64 `json:"budget_ms,omitempty"` // its deadline; 0: it has none
	Running  bool    `json:"running,omitempty"`
	Outcome  string  `json:"outcome,omitempty"` // ok or why it failed (SPEC §3); empty while it runs
	Message  string  `json:"message,omitempty"` // the error, cut at 256 bytes
}

// Lookup is a record. Times count from the start of the lookup unless they say otherwise.
type Lookup struct {
	LookupHead
	Callers   int              `json:"callers"` // requests that shared the lookup
	Bytes     int64            `json:"bytes"`   // verified bytes that came from peers and were missing
	Steps     []LookupStep     `json:"steps"`
	Searches  []LookupSearch   `json:"searches"`
	Providers []LookupProvider `json:"providers"`         // in the order in which they were chosen
	Tree      *LookupTree      `json:"tree,omitempty"`    // of a lookup of kind tree
	Omitted   *LookupOmissions `json:"omitted,omitempty"` // what the record leaves out; nil: nothing
}

// LookupStep is a source other than a provider, and what it said.
type LookupStep struct {
	AtMS   float64 `json:"at_ms"`
	TookMS float64 `json:"took_ms,omitempty"`
	// memory, store, partial (what an earlier fetch had left), cache (of earlier
	// lookups), named (by the caller), served (the peer that served the directory),
	// gossip, dht, permit (the wait for a place)
	Source  string `json:"source"`
	Verdict string `json:"verdict"`          // hit, miss, negative, asked, granted or failed
	Count   int64  `json:"count,omitempty"`  // peers, or bytes of partial
	Lookup  string `json:"lookup,omitempty"` // the lookup that found what the cache had
	Note    string `json:"note,omitempty"`   // an error
}

// LookupSearch is one search in the DHT, for providers or for the records of a name.
type LookupSearch struct {
	Key     string  `json:"key"`   // the address of the object or of its directory, or a name
	AtMS    float64 `json:"at_ms"` // below 0: another lookup had begun it
	TookMS  float64 `json:"took_ms"`
	Joined  bool    `json:"joined,omitempty"`  // another lookup began it
	Running bool    `json:"running,omitempty"` // it had not ended when the lookup ended
	Found   int     `json:"found"`             // providers, or records of the name
	Outcome string  `json:"outcome,omitempty"`
	Message string  `json:"message,omitempty"` // an error
	Trace   *Trace  `json:"trace,omitempty"`   // nil: the records that the node holds were enough, or it still ran
	Omitted int     `json:"omitted,omitempty"` // probes that the trace leaves out
}

// LookupProvider is a peer that was asked for the object, or was about to be.
type LookupProvider struct {
	ID      string        `json:"id"`
	Source  string        `json:"source"` // how it became known: named, served, gossip, dht
	FoundMS float64       `json:"found_ms"`
	Asked   int           `json:"asked"`            // requests that ended
	Bytes   int64         `json:"bytes"`            // verified, and missing before
	Extra   int64         `json:"extra,omitempty"`  // verified, and here already
	Rate    float64       `json:"rate,omitempty"`   // measured bytes per second; 0: unknown
	RTTMS   float64       `json:"rtt_ms,omitempty"` // measured time to the first byte of an answer; 0: unknown
	Hedges  LookupHedges  `json:"hedges"`
	GaveUp  *LookupGaveUp `json:"gave_up,omitempty"` // nil: it was not given up
	Spans   []LookupSpan  `json:"spans"`
	Omitted int           `json:"omitted,omitempty"` // requests that spans leaves out, after the first four
}

// LookupHedges counts the requests that a provider got because another's was late.
type LookupHedges struct {
	Won    int `json:"won"` // it delivered first
	Lost   int `json:"lost"`
	Failed int `json:"failed"`
}

// LookupGaveUp is why a provider was not asked any more.
type LookupGaveUp struct {
	AtMS    float64 `json:"at_ms"`
	Outcome string  `json:"outcome"`
	Message string  `json:"message"`
}

// LookupSpan is one request to a provider.
type LookupSpan struct {
	AtMS    float64 `json:"at_ms"`
	SentMS  float64 `json:"sent_ms,omitempty"`  // since at_ms: when the request went out
	FirstMS float64 `json:"first_ms,omitempty"` // since at_ms: when the answer began; 0: it did not
	TookMS  float64 `json:"took_ms"`
	Start   int64   `json:"start,omitempty"`   // the first byte requested
	End     int64   `json:"end,omitempty"`     // the byte after the last; 0 in a request for many objects
	Objects int     `json:"objects,omitempty"` // objects requested; 0 in a request for a range
	Bytes   int64   `json:"bytes"`
	Extra   int64   `json:"extra,omitempty"`
	Hedge   string  `json:"hedge,omitempty"` // won, lost or failed; empty: it hedged no other request
	Outcome string  `json:"outcome"`
	Message string  `json:"message,omitempty"` // the error
}

// LookupTree is the result of a fetch of a directory.
type LookupTree struct {
	Objects      int64           `json:"objects"` // that the directories name, with them
	Bytes        int64           `json:"bytes"`
	Fetched      int64           `json:"fetched"` // objects from peers
	FetchedBytes int64           `json:"fetched_bytes"`
	Skipped      int64           `json:"skipped"` // local, or seen before
	Failures     []LookupFailure `json:"failures"`
}

// LookupFailure is an object of a directory that could not be fetched.
type LookupFailure struct {
	Root    b3.Root `json:"root"`
	Lookup  string  `json:"lookup,omitempty"` // of a large file
	Outcome string  `json:"outcome"`
	Message string  `json:"message"`
}

// LookupOmissions counts what a record leaves out, because a record is at most 64 KiB.
type LookupOmissions struct {
	Steps     int `json:"steps,omitempty"`
	Searches  int `json:"searches,omitempty"`
	Providers int `json:"providers,omitempty"`
	Spans     int `json:"spans,omitempty"`
	Failures  int `json:"failures,omitempty"`
}
