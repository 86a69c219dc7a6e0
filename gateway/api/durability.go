package api

import (
	"fmt"
	"time"

	"allium/protocols/b3"
)

// Target is the durability that a pin asks for: copies, or an erasure coding.
type Target struct {
	RF int    `json:"rf,omitempty"` // nodes that hold the whole object, this one included; 0: none is asked for
	EC string `json:"ec,omitempty"` // data and parity shards, each on another node, such as "6+3"
}

// DefaultRF is the number of copies where one is asked for without a number.
const DefaultRF = 2

// DefaultEC is the erasure coding where one is asked for without numbers.
const DefaultEC = "6+3"

// Wants reports whether t asks for anything.
func (t Target) Wants() bool { return t != Target{} }

// String returns t for people: "rf 3", "ec 6+3" or "none".
func (t Target) String() string {
	switch {
	case t.EC != "":
		return "ec " + t.EC
	case t.RF == 0:
		return "none"
	}
	return fmt.Sprintf("rf %d", t.RF)
}

// Durability says how far a node is with the copies that pins ask for.
type Durability struct {
	Objects     int `json:"objects"`     // with a target, at this node
	Checking    int `json:"checking"`    // of them, being placed, or with holders that have not answered yet
	AtRisk      int `json:"at_risk"`     // of them, with fewer copies than they should have
	Unreachable int `json:"unreachable"` // of those at risk, that cannot be read until a member answers that is silent
	Lost        int `json:"lost"`        // that cannot be read, and of which every member said that it holds nothing
	Unplanned   int `json:"unplanned"`   // with a target, which this node does not plan, as there are too many

	Wanted   int   `json:"copies_wanted"`
	Observed int   `json:"copies_observed"` // that their holders proved
	Missing  int64 `json:"missing_bytes"`   // of the copies that are missing, of objects at risk or lost
	// ETASeconds is the time in seconds to send them at the rate of the latest sends; 0: nothing is missing,
	// or nothing was sent lately.
	ETASeconds float64 `json:"eta_s"`

	Ready    bool `json:"ready"`     // this node has looked at all pins since it started
	LastOnly bool `json:"last_only"` // more than a third of the members vanished together: only last copies are sent

	Beyond *Beyond `json:"beyond,omitempty"` // what asks for more copies than there are members

	Members []Member `json:"members"` // of the cluster, this node among them

	Evacuation *Evacuation `json:"evacuation,omitempty"` // of this node, while it hands its copies over
}

// Beyond has objects of which more copies are asked for than the cluster has members.
type Beyond struct {
	Objects int     `json:"objects"`
	First   b3.Root `json:"first"` // one of them
	By      Asking  `json:"by"`    // who asks for the most copies of that
}

// Asking is a node whose pin asks for copies of an object.
type Asking struct {
	ID     string `json:"id"`
	Self   bool   `json:"self,omitempty"`
	Target Target `json:"target"`
	Beyond bool   `json:"beyond,omitempty"` // the cluster has not so many members
	// Why is "stranger" for a node that is no member of the cluster: what it asks for counts only while no member asks,
	// and then for 3 copies at most. It is "adopted" for this node if it lost its pins, and others remember what it asked.
	Why string `json:"why,omitempty"`
}

// Member is a node of the cluster.
type Member struct {
	ID       string `json:"id"`
	Self     bool   `json:"self,omitempty"`
	State    string `json:"state"`    // "present", "gone" (silent for too long) or "draining"
	Capacity uint64 `json:"capacity"` // bytes that it offers in all
	Free     uint64 `json:"free"`     // bytes that it still takes
	Region   string `json:"region,omitempty"`
	Domain   string `json:"domain,omitempty"` // host, rack, volume or bucket
	Network  string `json:"network,omitempty"`
}

// ObjectDurability says what a node knows of the copies of one object.
type ObjectDurability struct {
	Key      b3.Root  `json:"key"`
	Size     int64    `json:"size"`
	Target   Target   `json:"target"` // what all pins of the object together ask for
	Observed int      `json:"observed"`
	Holders  []Holder `json:"holders"`
	Asked    []Asking `json:"asked,omitempty"` // who asks for copies
	Wanted   int      `json:"wanted"`          // copies, or shards that have bytes
	// State is "met", "checking" (it is being placed, or holders have not answered yet), "at_risk", "unreachable" or
	// "lost".
	State string `json:"state"`

	Short   time.Time `json:"short_since,omitzero"` // since when copies are missing
	Removed time.Time `json:"removed,omitzero"`     // when the last target was removed; its copies go some time later

	Places []Placement `json:"places,omitempty"` // where copies belong, the first choice first, if that was asked for
}

// Holder is a member that may hold a copy.
type Holder struct {
	ID   string `json:"id"`
	Self bool   `json:"self,omitempty"`
	// State is "proved", "sending", "unknown" (it was not asked yet, or has not answered), "absent" (it has none, or
	// could not prove it), "leaving" (the copy is about to be dropped), "stale" (proved too long ago), "gone" (the
	// member is silent) or "extra" (the member's copies do not count).
	State     string    `json:"state"`
	Piece     string    `json:"piece,omitempty"` // of a coded object: "shard 4", counted from 1, or "whole"
	LastProof time.Time `json:"last_proof,omitzero"`
	NextAudit time.Time `json:"next_audit,omitzero"`
}

// Placement is a member in the choice of where the copies of an object go.
type Placement struct {
	ID     string `json:"id"`
	Chosen int    `json:"chosen,omitempty"` // 1 is the first choice; 0: it is not chosen
	Why    string `json:"why"`              // what it shares with those before it, or why it may get no copy
}

// Placed says how many objects have the copies that are asked for.
type Placed struct {
	Root    b3.Root `json:"root"`
	Objects int     `json:"objects"`
	Met     int     `json:"met"` // of them, with all copies
}
