package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Overseer shows a node as a whole.
type Overseer interface {
	// Overview returns how the node does, for the console: the parts that r asks for. It starts nothing and asks no
	// peer. Its lists are bounded, and each that was cut says how many entries it left out.
	Overview(ctx context.Context, r OverviewRequest) (Overview, error)
}

// The most entries of the lists of an Overview.
const (
	MaxOverviewLimits    = 24  // the fullest, and those that refused something
	MaxOverviewTransfers = 50  // the latest
	MaxOverviewPeers     = 200 // connections
	MaxOverviewPins      = 200 // in the order of their addresses
	MaxOverviewArriving  = 50  // objects that are here in part
	MaxOverviewNames     = 200 // own ones, and as many followed ones
	MaxOverviewLookups   = 100 // the latest
	MaxOverviewSpace     = 512 // nodes in the key space
)

// OverviewCells is the number of parts into which an Arriving divides an object.
const OverviewCells = 64

// OverviewPart names a part of an Overview.
type OverviewPart string

// The parts of an Overview, one for each view of the console.
const (
	PartNow     OverviewPart = "now"
	PartPeers   OverviewPart = "peers"
	PartContent OverviewPart = "content"
	PartNames   OverviewPart = "names"
	PartLookups OverviewPart = "lookups"
	PartReload  OverviewPart = "reload"
	PartTestnet OverviewPart = "testnet"
)

// OverviewParts returns the parts of an Overview.
func OverviewParts() []OverviewPart {
	return []OverviewPart{PartNow, PartPeers, PartContent, PartNames, PartLookups, PartReload, PartTestnet}
}

// OverviewRequest is the request of Overview.
type OverviewRequest struct {
	// Parts are the parts, separated by commas; empty: all.
	Parts string `query:"parts" doc:"now, peers, content, names, lookups, reload and testnet, with commas; empty: all"`
}

// Wanted returns the parts that r asks for, or bad_request for one that does not exist.
func (r OverviewRequest) Wanted() ([]OverviewPart, error) {
	if r.Parts == "" {
		return OverviewParts(), nil
	}
	var parts []OverviewPart
	for text := range strings.SplitSeq(r.Parts, ",") {
		part := OverviewPart(text)
		if !slices.Contains(OverviewParts(), part) {
			return nil, status.Errorf(status.BadRequest, "an overview has no part %.40q", text)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// Overview shows how a node does. Parts that were not asked for are missing.
type Overview struct {
	At      time.Time `json:"at"`
	ID      string    `json:"id"`      // of the node
	Profile string    `json:"profile"` // node.profile
	Ready   Readiness `json:"ready"`

	Now     *OverviewNow     `json:"now,omitempty"`
	Peers   *OverviewPeers   `json:"peers,omitempty"`
	Content *OverviewContent `json:"content,omitempty"`
	Names   *OverviewNames   `json:"names,omitempty"`
	Lookups *OverviewLookups `json:"lookups,omitempty"`
	Reload  *OverviewReload  `json:"reload,omitempty"`
	Testnet *OverviewTestnet `json:"testnet,omitempty"` // of a node of a testnet alone
}

// OverviewNow says what the node does now.
type OverviewNow struct {
	Process ProcessHealth `json:"process"`
	Clock   ClockHealth   `json:"clock"`
	Store   StoreStat     `json:"store"`
	Traffic Traffic       `json:"traffic"`

	Limits     []Limit `json:"limits"`      // those that refused something, then the fullest
	LimitsLeft int     `json:"limits_left"` // limits that Limits leaves out

	Transfers     []Transfer `json:"transfers"` // that are under way
	TransfersLeft int        `json:"transfers_left"`
}

// Traffic counts verified bytes of objects since the node started.
type Traffic struct {
	In  int64 `json:"in"`  // from peers
	Out int64 `json:"out"` // to peers
}

// Transfer is a fetch from peers that is under way.
type Transfer struct {
	LookupHead
	Bytes int64 `json:"bytes"`          // verified, and missing before
	Peers int   `json:"peers"`          // that were asked
	Here  int64 `json:"here,omitempty"` // bytes of the object that are here; 0: not known
	Size  int64 `json:"size,omitempty"` // of the object in bytes; 0: not known
}

// OverviewPeers shows the network as the node sees it.
type OverviewPeers struct {
	Addrs     []string      `json:"addrs"`
	Reach     Reach         `json:"reach"`
	Table     TableHealth   `json:"table"`
	Peers     []PeerQuality `json:"peers"` // the connections
	PeersLeft int           `json:"peers_left"`
	Seeds     Seeds         `json:"seeds"`
}

// PeerQuality is a connection, and what requests to the peer have shown.
type PeerQuality struct {
	Peer
	Relayed bool    `json:"relayed"` // it goes through a relay
	Breaker string  `json:"breaker"` // "closed" (requests pass), "half_open" (a few pass) or "open" (none)
	Rate    float64 `json:"rate"`    // measured bytes per second; 0: not known
	Busy    bool    `json:"busy"`    // it refused a request as busy a short time ago
}

// OverviewContent shows what the node keeps.
type OverviewContent struct {
	Store        StoreStat     `json:"store"`
	Pins         []PinCopies   `json:"pins"` // in the order of their addresses
	PinsLeft     bool          `json:"pins_left"`
	Arriving     []Arriving    `json:"arriving"` // objects that are here in part
	ArrivingLeft int64         `json:"arriving_left"`
	Durability   *Durability   `json:"durability,omitempty"` // missing: the node joins no cluster
	Damage       *DamageReport `json:"damage,omitempty"`     // missing: there is none
}

// PinCopies is a pin, and the copies of its object that members of the cluster proved.
type PinCopies struct {
	Pin
	Wanted   int    `json:"wanted,omitempty"` // copies, or shards, of the pinned object; 0: none are asked for
	Observed int    `json:"observed,omitempty"`
	State    string `json:"state,omitempty"`   // as in ObjectDurability
	Objects  int    `json:"objects,omitempty"` // of a pin with a target: that it keeps and that were looked at
	Met      int    `json:"met,omitempty"`     // of these, with all copies that are asked for
}

// Arriving is a partly stored object.
type Arriving struct {
	Root    b3.Root `json:"root"`
	Size    int64   `json:"size"`    // bytes of the object
	Stored  int64   `json:"stored"`  // of them that are here, each proved
	Running bool    `json:"running"` // it is being fetched
	// Cells says how much of each part of the object is here, in percent: the object is divided into at most 64 parts
	// of whole groups.
	Cells []int `json:"cells"`
}

// OverviewNames shows names.
type OverviewNames struct {
	Own         []OwnName     `json:"own"`
	OwnLeft     bool          `json:"own_left"`
	Watched     []WatchedName `json:"watched"` // by readers of events
	WatchedLeft int           `json:"watched_left"`
}

// WatchedName is a name that a reader of events follows.
type WatchedName struct {
	Name      string    `json:"name"` // with the key of its zone
	Followers int       `json:"followers"`
	Value     string    `json:"value,omitempty"`    // missing: the node remembers no record of it
	Seq       uint64    `json:"seq,omitempty"`      // of the record
	NotAfter  time.Time `json:"not_after,omitzero"` // when the record expires
}

// OverviewLookups lists the latest lookups; Why has all about each.
type OverviewLookups struct {
	Lookups []LookupHead `json:"lookups"` // the latest first
	Left    int          `json:"left"`    // lookups that the node remembers beside them
}

// OverviewReload shows the configuration.
type OverviewReload struct {
	File    string        `json:"file,omitempty"` // the file that was read; empty: none
	Values  []ConfigValue `json:"values"`         // that are not defaults
	Reloads []Reloaded    `json:"reloads"`        // at most 16, the latest first
}

// OverviewTestnet shows a node of a testnet.
type OverviewTestnet struct {
	Faults    Faults      `json:"faults"` // that this node injects; others have theirs
	Space     []SpaceNode `json:"space"`  // the nodes that this one knows, itself first
	SpaceLeft int         `json:"space_left"`
}

// SpaceNode is a node in the key space.
type SpaceNode struct {
	ID        string  `json:"id"`
	At        float64 `json:"at"` // its place in the key space, from 0 to below 1
	Self      bool    `json:"self,omitempty"`
	Connected bool    `json:"connected"`
	Table     bool    `json:"table"`  // it is in the routing table
	Bucket    int     `json:"bucket"` // leading bits shared with this node
	Fails     int     `json:"fails"`  // requests that failed since its last answer
}

var overviewVerbs = []*Verb{verbOverview.Verb}

var verbOverview = value(Spec{
	ID: "Overview", Path: "overview",
	Doc: "Shows how the node does, for the console: its gates, disk and transfers, its peers, content, names, " +
		"lookups and reloads.",
	Answer: "the parts that were asked for",
}, Node.Overview)

// Overview implements Overseer.
func (r remoteOverview) Overview(ctx context.Context, o OverviewRequest) (Overview, error) {
	return verbOverview.send(ctx, r.caller, o)
}
