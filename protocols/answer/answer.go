// Package answer has the answers of /resolve and /providers as Go types. They are the JSON of the
// gateway and of the index protocol alike (SPEC §11, OAP1 §10).
package answer

import (
	"time"

	"allium/protocols/b3"
)

// Confidence says how sure it is that a peer has an object.
type Confidence string

// The confidences, the lowest first.
const (
	Hint   Confidence = "hint"   // it announced the object by gossip, or served the directory of it
	Signed Confidence = "signed" // the DHT has its signed record
	Served Confidence = "served" // it sent verified bytes of the object, or is this node and has it
)

// Provider is a peer that may have an object.
type Provider struct {
	ID         string     `json:"id"`
	Addrs      []string   `json:"addrs"`
	Region     string     `json:"region,omitempty"`     // where it says that it is
	RTTMS      float64    `json:"rtt_ms,omitempty"`     // milliseconds to it and back; missing: not measured
	NotAfter   time.Time  `json:"not_after,omitzero"`   // when its record expires; missing: there is no record
	Source     string     `json:"source,omitempty"`     // how it was found: local, peer, gossip, connected or dht
	Confidence Confidence `json:"confidence,omitempty"` // how sure its claim is
}

// Resolved names the providers of an object, the best first.
type Resolved struct {
	Key        string     `json:"key"`                // as it was asked
	Target     b3.Root    `json:"target"`             // the object that the key names, or the directory of Path
	Path       string     `json:"path,omitempty"`     // below the target
	Value      string     `json:"value,omitempty"`    // of a name that stands for text; then there is no target
	Chain      []Record   `json:"chain,omitempty"`    // the records of a name, from the first on
	Seq        uint64     `json:"seq,omitempty"`      // of the first record
	NotAfter   time.Time  `json:"not_after,omitzero"` // when the first record of the chain expires
	Stale      bool       `json:"stale,omitempty"`    // a record is older than its TTL, or has expired
	Source     string     `json:"source"`             // cache, local, peer, gossip, connected, dht or dns
	AgeMS      int64      `json:"age_ms"`             // milliseconds since the network was asked
	TTLMS      int64      `json:"ttl_ms"`             // milliseconds for which the node will remember the answer
	Confidence Confidence `json:"confidence"`         // the highest of a provider
	Providers  []Provider `json:"providers"`
	LookupID   string     `json:"lookup_id"` // names the lookup in the log
}

// Record is the signed record of a name.
type Record struct {
	Name  string `json:"name"`            // with the key of its zone
	Short string `json:"short,omitempty"` // the short name of the zone, if it was found by that
	// where the zone was found: key, petname or map; dns: a link of a domain
	Found    string    `json:"found,omitempty"`
	Seq      uint64    `json:"seq"`
	Value    string    `json:"value"`              // an address, a name, text, or empty if the name was withdrawn
	NotAfter time.Time `json:"not_after,omitzero"` // missing: the link of a domain, which nobody signs
	TTLMS    int64     `json:"ttl_ms"`
}

// Providers lists the providers of an object, the best first.
type Providers struct {
	Key       string     `json:"key"`
	Providers []Provider `json:"providers"`
	Source    string     `json:"source"`    // where the answer came from: cache, local, peer, gossip, connected or dht
	AgeMS     int64      `json:"age_ms"`    // milliseconds since the network was asked
	LookupID  string     `json:"lookup_id"` // names the lookup in the log
}

// MaxProviders is the most providers of an answer (SPEC §9).
const MaxProviders = 32
