package api

import (
	"context"

	"allium/internal/limits"
)

// Examiner reports the health of a running node.
type Examiner interface {
	// Health returns the node's health. With o.Sample it takes up to 2 s longer.
	Health(ctx context.Context, o HealthOptions) (Health, error)
}

// HealthOptions modify Health.
type HealthOptions struct {
	Sample bool `query:"sample" doc:"reads a random sample of the store again: at most 64 MiB, for at most 2 s"`
}

// Health is the health of a running node.
type Health struct {
	Profile   string        `json:"profile"` // node.profile
	Amnesia   bool          `json:"amnesia"` // it keeps everything in RAM
	Readiness Readiness     `json:"readiness"`
	Clock     ClockHealth   `json:"clock"`
	Table     TableHealth   `json:"table"`
	Process   ProcessHealth `json:"process"`
	Sample    *StoreSample  `json:"sample,omitempty"` // missing: it was not asked for
}

// ClockHealth is the node's clock against those of peers.
type ClockHealth struct {
	Known    bool  `json:"known"`     // enough peers have told their time
	OffsetMS int64 `json:"offset_ms"` // by how much this machine's clock is ahead of theirs; 0 if not known
	Voices   int   `json:"voices"`    // groups of peers that have told it
	Need     int   `json:"need"`      // groups that are needed
}

// TableHealth is the routing table.
type TableHealth struct {
	Peers    int  `json:"peers"`
	Public   int  `json:"public"`   // of them, with addresses on the Internet
	Networks int  `json:"networks"` // IP networks in which these are
	Largest  int  `json:"largest"`  // of them, in the network that has most
	Have     int  `json:"have"`     // peers that count for the gate routing_table
	Need     int  `json:"need"`     // and how many it needs
	Known    bool `json:"known"`    // the size of the network is known, from which Need follows
}

// ProcessHealth is the process of the node.
type ProcessHealth struct {
	UptimeMS    int64 `json:"uptime_ms"`
	Goroutines  int   `json:"goroutines"`
	Conns       int   `json:"conns"`        // connections to peers
	Streams     int   `json:"streams"`      // on them
	MemoryBytes int64 `json:"memory_bytes"` // that Go has from the system
	MemoryLimit int64 `json:"memory_limit"` // of Go's garbage collector; 0: none
	OpenFiles   int64 `json:"open_files"`   // that the process may have open; 0: the system does not tell
}

// StoreSample is the result of reading a random sample of the store again.
type StoreSample struct {
	Objects int   `json:"objects"` // that were read
	Bytes   int64 `json:"bytes"`   // of them
	Damaged int   `json:"damaged"` // of them, that are not what their addresses say
	Busy    bool  `json:"busy"`    // another sample is being read, and nothing was
}

var healthVerbs = []*Verb{verbHealth.Verb}

var verbHealth = value(Spec{
	ID: "Health", Path: "health",
	Doc: "Says how the node does: its gates, its clock against that of peers, its routing table and its process; " +
		"if asked, it reads a sample of its store again.",
	Answer: "how the node does",
}, Node.Health)

// Health implements Examiner.
func (r remoteHealth) Health(ctx context.Context, o HealthOptions) (Health, error) {
	return verbHealth.send(ctx, r.caller, o)
}

// Limits is every bound of the node with what is in use of it (SPEC §11).
type Limits struct {
	Limits []Limit `json:"limits"`
}

// Limit is one bound.
type Limit struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // gate, queue, rate or budget
	Capacity int64  `json:"capacity"`
	Current  int64  `json:"current"`
	Peak     int64  `json:"peak"`
	Rejected int64  `json:"rejected"`
	Policy   string `json:"policy"`            // what happens when it is full
	Path     string `json:"path"`              // producer → consumer
	Each     string `json:"each,omitempty"`    // such as "peer": each has one; current is that of the fullest
	Members  int64  `json:"members,omitempty"` // how many use theirs, where that is counted
}

// LimitOf returns a bound as the API shows it.
func LimitOf(l limits.Info) Limit {
	return Limit{
		Name: l.Name, Kind: string(l.Kind), Capacity: l.Capacity, Current: l.Current, Peak: l.Peak,
		Rejected: l.Rejected, Policy: l.Policy, Path: l.Path, Each: l.Each, Members: l.Members,
	}
}
