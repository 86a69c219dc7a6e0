package api

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/protocols/capability"
)

// Target is the durability that a pin asks for: copies, or an erasure coding.
type Target struct {
	// nodes that hold the whole object, this one included; 0: none is asked for
	RF int `json:"rf,omitempty" query:"rf"`
	// data and parity shards, each on another node, such as "6+3"
	EC string `json:"ec,omitempty" query:"ec"`
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
	Lost        int `json:"lost"`        // that cannot be read: every member said that it holds nothing of them
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

// Beyond counts the objects whose pins ask for more copies than the cluster has members.
type Beyond struct {
	Objects int     `json:"objects"`
	First   b3.Root `json:"first"` // one of them
	By      Asking  `json:"by"`    // the node that asks for the most copies of First
}

// Asking is a node whose pin asks for copies of an object.
type Asking struct {
	ID     string `json:"id"`
	Self   bool   `json:"self,omitempty"`
	Target Target `json:"target"`
	Beyond bool   `json:"beyond,omitempty"` // the cluster has not so many members
	// Why is "stranger" for a node that is no member of the cluster: what it asks for counts only while no member asks,
	// and then for 3 copies at most. It is "adopted" for this node if it lost its pins, and others remember what it
	// asked.
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
	Asked    []Asking `json:"asked,omitempty"` // the nodes that ask for copies
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

// Resumed is the result of ending the time in which only last copies are sent.
type Resumed struct {
	Silent int `json:"silent"` // members that are silent now, and taken not to come back
}

// Evacuation says how far a node is with handing its copies over to the other members of its cluster.
type Evacuation struct {
	Since     time.Time `json:"since"`         // when it was asked to
	Ready     bool      `json:"ready"`         // it has looked at all pins since then; before, numbers are not final
	Objects   int       `json:"objects"`       // that it holds and that pins ask copies of
	Left      int       `json:"left"`          // of them, that fewer others proved since than are asked for
	LeftBytes int64     `json:"left_bytes"`    // of these
	Stuck     int       `json:"stuck"`         // of those that are left, that too few others can hold
	Alone     int       `json:"alone"`         // pins that ask for no copies: what they keep is on this node alone
	Why       string    `json:"why,omitempty"` // it does not go on now; empty: it does
	Done      bool      `json:"done"`          // no object that pins ask copies of needs the copy here
}

// Cluster says how far a node is with the copies that pins ask for, and hands its copies over.
type Cluster interface {
	// Durability says how far the node is with the copies that pins ask for. A node that joins no cluster returns
	// unsupported.
	Durability(ctx context.Context) (Durability, error)
	// ObjectDurability says what the node knows of the copies of one object, and with explain where they belong. The
	// error is not_found if no pin asks for copies.
	ObjectDurability(ctx context.Context, key string, explain bool) (ObjectDurability, error)
	// AwaitCopies waits until an object, and everything below it that is stored here, has the copies that t asks for,
	// whatever others ask; nil stands for all that pins ask for. Progress counts objects. The error is not_ready if the
	// cluster cannot hold them now, or none came for some minutes; the node goes on.
	AwaitCopies(ctx context.Context, key string, t *Target, progress ProgressFunc) (Placed, error)
	// ResumeCopies ends the time in which the node sends only last copies because more than a third of the members
	// vanished together. It does not begin again because of those that are silent now.
	ResumeCopies(ctx context.Context) (Resumed, error)
	// Evacuate has the node hand its copies over to other members of its cluster, and yields how far it is about once a
	// second, until none is needed here. The node goes on when the caller leaves, and after a restart, until
	// StopEvacuation. The error is not_ready if others cannot hold the copies now, and conflict if everything is handed
	// over but pins that ask for no copies.
	Evacuate(ctx context.Context) iter.Seq2[Evacuation, error]
	// StopEvacuation makes the node a full member of its cluster again. It changes nothing for one that is.
	StopEvacuation(ctx context.Context) error
}

var clusterVerbs = []*Verb{
	verbDurability.Verb, verbObjectDurability.Verb, verbAwaitCopies.Verb, verbResumeCopies.Verb, verbEvacuate.Verb,
	verbStopEvacuation.Verb,
}

type objectDurabilityRequest struct {
	keyRequest
	Explain bool `query:"explain" doc:"says where copies belong, and why"`
}

type awaitRequest struct {
	keyRequest
	Target *Target
}

var (
	verbDurability = value(Spec{
		ID: "Durability", Path: "durability",
		Doc:    "Says how far the node is with the copies that pins ask for, and which members its cluster has.",
		Answer: "how far it is",
	}, plain(Node.Durability))
	verbObjectDurability = value(Spec{
		ID: "ObjectDurability", Path: "durability/object",
		Doc:    "Says which members hold an object, which proved it when, and when they are asked next.",
		Answer: "what the node knows of the copies",
	}, func(n Node, ctx context.Context, r objectDurabilityRequest) (ObjectDurability, error) {
		return n.ObjectDurability(ctx, r.Key, r.Explain)
	})
	verbAwaitCopies = run(Spec{
		ID: "AwaitCopies", Path: "durability/wait", Slow: true,
		Doc: "Waits until an object, and everything below it that is stored here, has the copies that are asked for: " +
			"by rf or ec, or without these by all pins. The node makes them whether somebody waits or not.",
		Answer: "progress in objects, and how many have their copies",
	}, func(n Node, ctx context.Context, r awaitRequest, progress ProgressFunc, _ func(none) error) (Placed, error) {
		return n.AwaitCopies(ctx, r.Key, r.Target, progress)
	})
	verbResumeCopies = value(Spec{
		ID: "ResumeCopies", Path: "durability/resume", Op: capability.Repair,
		Doc: "Ends the time in which the node sends only last copies because more than a third of the members " +
			"vanished together: those that are silent now do not come back.",
		Answer: "how many members are silent",
	}, plain(Node.ResumeCopies))
	verbEvacuate = items(Spec{
		ID: "Evacuate", Path: "evacuate", Op: capability.Drain, Slow: true,
		Doc: "Hands the node's copies over to other members of its cluster, and says how far that is until none is " +
			"needed here. The node goes on when the client leaves, and after a restart.",
		Answer: "how far it is, about once a second",
	}, plainItems(Node.Evacuate))
	verbStopEvacuation = value(Spec{
		ID: "StopEvacuation", Path: "evacuate/stop", Op: capability.Drain,
		Doc: "Ends an evacuation: the node is a full member of its cluster again.", Answer: "it is a full member",
	}, action(Node.StopEvacuation))
)

// Durability implements Cluster.
func (r remoteCluster) Durability(ctx context.Context) (Durability, error) {
	return verbDurability.send(ctx, r.caller, none{})
}

// ObjectDurability implements Cluster.
func (r remoteCluster) ObjectDurability(ctx context.Context, key string, explain bool) (ObjectDurability, error) {
	return verbObjectDurability.send(ctx, r.caller, objectDurabilityRequest{keyRequest{key}, explain})
}

// AwaitCopies implements Cluster.
func (r remoteCluster) AwaitCopies(ctx context.Context, key string, t *Target, progress ProgressFunc) (Placed, error) {
	return verbAwaitCopies.send(ctx, r.caller, awaitRequest{keyRequest{key}, t}, progress, nil)
}

// ResumeCopies implements Cluster.
func (r remoteCluster) ResumeCopies(ctx context.Context) (Resumed, error) {
	return verbResumeCopies.send(ctx, r.caller, none{})
}

// Evacuate implements Cluster.
func (r remoteCluster) Evacuate(ctx context.Context) iter.Seq2[Evacuation, error] {
	return verbEvacuate.seq(ctx, r.caller, none{})
}

// StopEvacuation implements Cluster.
func (r remoteCluster) StopEvacuation(ctx context.Context) error {
	return verbStopEvacuation.do(ctx, r.caller, none{})
}
