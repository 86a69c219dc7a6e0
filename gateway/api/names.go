package api

import (
	"time"

	"allium/protocols/status"
)

// PublishRequest is the body of /api/v1/name/publish.
type PublishRequest struct {
	Name   string `json:"name"`              // LABEL.ZONE, ZONE a key or a short name; or LABEL in the only own zone
	Value  string `json:"value"`             // b3:<hex>[/path], another name, or text; at most 1,024 bytes
	TTLMS  int64  `json:"ttl_ms,omitempty"`  // milliseconds that caches may keep it, 5 s to 1 d; 0: 1 min
	LifeMS int64  `json:"life_ms,omitempty"` // milliseconds, 10 min to 30 d, until it expires; 0: 7 d
}

// WithdrawRequest is the body of /api/v1/name/withdraw.
type WithdrawRequest struct {
	Name string `json:"name"` // as in PublishRequest
}

// ExpandedName is a name with the key of its zone.
type ExpandedName struct {
	Name string `json:"name"`
}

// OwnName is a name that this node publishes.
type OwnName struct {
	Name     string         `json:"name"`              // with the key of its zone
	Short    string         `json:"short,omitempty"`   // with the petname of its zone; missing: it has none
	Value    string         `json:"value"`             // an address, a name or text; empty: it was withdrawn
	Seq      uint64         `json:"seq"`               // of several records the one with the highest is in force
	NotAfter time.Time      `json:"not_after"`         // when the record expires, if it is not signed again
	TTLMS    int64          `json:"ttl_ms"`            // milliseconds for which caches may keep it
	Peers    int            `json:"peers"`             // that took the record when it was sent last
	Sent     time.Time      `json:"sent,omitzero"`     // when that was; missing: not since the node started
	Due      time.Time      `json:"due,omitzero"`      // when it is sent or signed again; missing: not at all
	Problem  string         `json:"problem,omitempty"` // why it is sent no more: superseded, equivocation or refused
	Error    *status.Report `json:"error,omitempty"`   // of the problem, or why no peer took it
	Missing  bool           `json:"missing,omitempty"` // the node lacks the object; told when it is published
}
