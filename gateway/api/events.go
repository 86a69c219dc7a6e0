package api

import (
	"time"

	"allium/protocols/b3"
)

// Topic names a kind of events.
type Topic string

// The topics of events. All but TopicLagged can be subscribed to.
const (
	TopicReadiness  Topic = "readiness"  // gates that open and shut
	TopicPeers      Topic = "peers"      // connections that begin and end
	TopicPins       Topic = "pins"       // pins that are added and removed
	TopicTransfers  Topic = "transfers"  // fetches from peers that begin and end
	TopicNames      Topic = "names"      // new records of names that the node publishes, remembers or follows
	TopicDurability Topic = "durability" // copies that are missing or there again, members that are gone or back
	TopicReloads    Topic = "reloads"    // new configurations that are applied, rejected and taken back
	TopicLagged     Topic = "lagged"     // the reader lost events
)

// EventStreamEnd is the name of the last event of a stream over HTTP. Its data is a
// status.Report that says why the stream ends.
const EventStreamEnd = "end"

// Topics returns the topics that can be subscribed to.
func Topics() []Topic {
	return []Topic{TopicReadiness, TopicPeers, TopicPins, TopicTransfers, TopicNames, TopicDurability, TopicReloads}
}

// MaxEventNames is the most names that one reader of events can follow.
const MaxEventNames = 64

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventOpened       EventKind = "opened"       // a gate
	EventShut         EventKind = "shut"         // a gate
	EventConnected    EventKind = "connected"    // to a peer
	EventDisconnected EventKind = "disconnected" // from a peer
	EventAdded        EventKind = "added"        // a pin, or the same pin again
	EventRemoved      EventKind = "removed"      // a pin
	EventBegun        EventKind = "begun"        // a transfer
	EventEnded        EventKind = "ended"        // a transfer
	EventUpdated      EventKind = "updated"      // a name
	EventAtRisk       EventKind = "at_risk"      // more objects have lost copies that they had
	EventRestored     EventKind = "restored"     // all objects that had lost copies have them again
	EventLost         EventKind = "lost"         // more objects have no copy that is known
	EventGone         EventKind = "gone"         // members that are silent for too long
	EventBack         EventKind = "back"         // members that are present again, or new
	EventApplied      EventKind = "applied"      // a configuration
	EventRejected     EventKind = "rejected"     // a configuration
	EventReverted     EventKind = "reverted"     // a configuration
)

// Event is something that happened in a node. One of the last members is set.
type Event struct {
	Topic      Topic            `json:"topic"`
	Kind       EventKind        `json:"kind,omitempty"` // what happened; none of lagged
	At         time.Time        `json:"at"`
	Gate       *Gate            `json:"gate,omitempty"`       // of readiness: the gate as it is now
	Peer       *PeerEvent       `json:"peer,omitempty"`       // of peers: the connection
	Pin        *PinEvent        `json:"pin,omitempty"`        // of pins: the pin
	Transfer   *TransferEvent   `json:"transfer,omitempty"`   // of transfers: the transfer
	Name       *Record          `json:"name,omitempty"`       // of names: the new record
	Durability *DurabilityEvent `json:"durability,omitempty"` // of durability: how it is now
	Reload     *ReloadEvent     `json:"reload,omitempty"`     // of reloads: the reload
	// of lagged: events that the reader lost before the next one
	Lost int64 `json:"lost,omitempty"`
}

// PeerEvent is a connection that began or ended.
type PeerEvent struct {
	ID        string `json:"id"`
	Addr      string `json:"addr"`
	Direction string `json:"direction"` // "in" or "out"
}

// PinEvent is a pin that was added or removed.
type PinEvent struct {
	Root      b3.Root `json:"root"`
	Label     string  `json:"label,omitempty"`
	Recursive bool    `json:"recursive,omitempty"` // of a pin that was added: it keeps what is below, too
}

// TransferEvent is a fetch from peers that began or ended.
type TransferEvent struct {
	Root     b3.Root `json:"root"`
	Tree     bool    `json:"tree,omitempty"`      // a directory and all below it; its large files are transfers too
	LookupID string  `json:"lookup_id,omitempty"` // the same in the log
	Outcome  string  `json:"outcome,omitempty"`   // at its end: ok, why it failed, or canceled if its callers left
	Bytes    int64   `json:"bytes,omitempty"`     // at its end: verified bytes received from peers
	TookMS   float64 `json:"took_ms,omitempty"`   // at its end
}

// MaxEventMembers is the maximum number of members that a DurabilityEvent names.
const MaxEventMembers = 16

// DurabilityEvent is a change of the copies of a node's objects, or of the members of its cluster. The node compares
// them once a minute and publishes at most one event of each kind, however many objects and members it is about.
type DurabilityEvent struct {
	Objects int   `json:"objects"`       // with a target, at this node
	AtRisk  int   `json:"at_risk"`       // of them, with fewer copies than they should have
	Lost    int   `json:"lost"`          // of them; every member said that it holds nothing of these
	Missing int64 `json:"missing_bytes"` // of the copies that are missing

	Members int      `json:"members,omitempty"` // that are gone or back
	IDs     []string `json:"ids,omitempty"`     // of these, the first 16
}
