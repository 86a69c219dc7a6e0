package diagnosis

import (
	"fmt"
	"strings"

	"allium/gateway/api"
)

var reachWords = map[api.ReachFrom]string{
	api.ReachAnyone:      "Anyone can dial this node: a peer has confirmed it.",
	api.ReachUnconfirmed: "This node has addresses on the Internet, and no peer has confirmed one.",
	api.ReachRelay:       "Others reach this node through a relay, which is slow, or by punching through the router.",
	api.ReachLAN:         "Only machines in a local network can dial this node.",
	api.ReachMachine:     "Only this machine can dial this node.",
	api.ReachNobody:      "Nobody can dial this node.",
}

var scopeWords = map[api.ReachFrom]string{
	api.ReachAnyone: "the Internet", api.ReachLAN: "local network", api.ReachMachine: "this machine",
}

var stateWords = map[api.ReachState]string{
	api.ReachConfirmed:   "confirmed: a peer has dialled it",
	api.ReachUnreachable: "unreachable: peers do not get through",
	api.ReachUnknown:     "no peer has said",
	api.ReachUnchecked:   "not checked",
}

// Addresses returns a table of a node's addresses and what peers found of each; if quiet, it is only
// from where the node can be dialled, in a word.
func Addresses(r api.Reach, quiet bool) string {
	if quiet {
		return string(r.From)
	}
	width := 0
	for _, a := range r.Addrs {
		width = max(width, len(a.Addr))
	}
	lines := make([]string, 0, len(r.Addrs)+1)
	for _, a := range r.Addrs {
		lines = append(lines, fmt.Sprintf("%-*s  %-13s  %-9s  %s",
			width, a.Addr, scopeWords[a.Scope], a.Via, addressState(a)))
	}
	if len(lines) == 0 {
		lines = append(lines, reachWords[r.From])
	}
	return strings.Join(lines, "\n")
}

// addressState says what peers found of an address, which peers, and whether it is announced.
func addressState(a api.ReachAddr) string {
	said := stateWords[a.State]
	if len(a.By) > 0 {
		said = "confirmed by " + strings.Join(a.By[:min(len(a.By), shownConfirmers)], ", ")
		if more := len(a.By) - shownConfirmers; more > 0 {
			said += fmt.Sprintf(" and %d more", more)
		}
	}
	if !a.Announced {
		said += ", not announced"
	}
	return said
}

// shownConfirmers bounds the peers that the table names for an address.
const shownConfirmers = 3

// natWords say what the type of a router's NAT means.
var natWords = map[string]string{
	"endpoint_independent": "the router keeps one port for this node: holes can be punched",
	"endpoint_dependent":   "the router gives each connection another port: holes can seldom be punched",
}

// Reach says from where a node can be dialled, why, and what to do; if quiet, it is
// only the word of Addresses.
func Reach(r api.Reach, quiet bool) string {
	if quiet {
		return Addresses(r, true)
	}
	lines := []string{reachWords[r.From]}
	if len(r.Addrs) > 0 {
		lines = append(lines, "", Addresses(r, false))
	}
	peers := "peers"
	if r.Peers == 1 {
		peers = "peer"
	}
	lines = append(lines, "", fmt.Sprintf("%d %s connected, %d of them can confirm addresses",
		r.Peers, peers, r.Confirmers))
	if words := natWords[r.NAT.UDP]; words != "" && r.From != api.ReachAnyone {
		lines = append(lines, words)
	}
	if r.Relays {
		lines = append(lines, "this node relays for others (listen.relay_service)")
	}
	for _, advice := range r.Advice {
		lines = append(lines, "- "+advice)
	}
	return strings.Join(lines, "\n")
}
