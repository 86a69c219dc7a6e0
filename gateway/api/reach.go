package api

// Reach says from where a node can be dialled.
type Reach struct {
	From  ReachFrom   `json:"from"`
	Addrs []ReachAddr `json:"addrs"` // at which this node listens or is announced, and those that peers found unreachable

	Peers      int `json:"peers"`      // connected peers
	Confirmers int `json:"confirmers"` // connected peers that dial addresses of others on request (AutoNAT v2)

	NAT ReachNAT `json:"nat"` // how the router maps this node's ports
	// Relays is whether this node relays for others now (listen.relay_service).
	Relays bool `json:"relays"`

	Advice []string `json:"advice"` // what the operator can do, a sentence each; empty: nothing needs to be done
}

// ReachNAT is the type of the router's NAT for each transport: "endpoint_independent" (holes can be punched),
// "endpoint_dependent" (mostly not) or "unknown".
type ReachNAT struct {
	UDP string `json:"udp"`
	TCP string `json:"tcp"`
}

// ReachFrom is from where a node can be dialled, in a word.
type ReachFrom string

// The values of ReachFrom, the farthest first.
const (
	ReachAnyone      ReachFrom = "anyone"      // a peer has confirmed an address on the Internet
	ReachUnconfirmed ReachFrom = "unconfirmed" // there are addresses on the Internet, and no peer has confirmed one
	ReachRelay       ReachFrom = "relay"       // through a relay alone
	ReachLAN         ReachFrom = "lan"         // from local networks
	ReachMachine     ReachFrom = "machine"     // from the same machine
	ReachNobody      ReachFrom = "nobody"      // it does not listen
)

// ReachAddr is an address of a node, and what is known of it.
type ReachAddr struct {
	Addr string `json:"addr"`
	// Scope is the widest group that could dial the address if nothing stood between: "anyone", "lan" or "machine".
	Scope ReachFrom `json:"scope"`
	// Via is the source of the address: "interface" of this machine, "router" (a port mapping),
	// "outside" (peers saw it), "config" (listen.announce), or "relay".
	Via   string     `json:"via"`
	State ReachState `json:"state"`
	// Announced is whether peers are told the address.
	Announced bool `json:"announced"`
	// By has the ids of connected peers that dialled this node that way within the last hour.
	By []string `json:"by,omitempty"`
}

// ReachState says what peers found of an address.
type ReachState string

// The states of an address.
const (
	ReachConfirmed   ReachState = "confirmed"   // a peer has dialled it
	ReachUnreachable ReachState = "unreachable" // peers tried to dial it and did not get through
	ReachUnknown     ReachState = "unknown"     // no peer has said
	ReachUnchecked   ReachState = "unchecked"   // nobody is asked: it is local, or a relay's
)
