package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/api"
)

func doctorCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Say what keeps the node from its work, and what to do",
		Example: "  allium doctor reach",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "reach",
		Short: "Say who can dial this node, and what to open if few can",
		Long: `Say from where this node can be dialled: what peers found of each address, and what
to open in a firewall or forward in a router.

Peers that are asked to (AutoNAT v2) dial the addresses of this node on the
Internet; that begins when it is connected to one, and takes some seconds. Which
peer confirmed an address is not known. Local addresses are not checked.`,
		Example: "  allium doctor reach\n  allium doctor reach --json",
		Args:    noArgs,
		RunE: onNode(a, func(ctx context.Context, n api.Node, _ []string) error {
			return printReach(ctx, a, n, doctorText)
		}),
	})
	return cmd
}

// printReach prints what the node knows of its addresses, as written by human.
func printReach(ctx context.Context, a *app, n api.Node, human func(r api.Reach, quiet bool) string) error {
	r, err := n.Reach(ctx)
	if err != nil {
		return err
	}
	return a.print(r, human(r, a.quiet))
}

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

// addressesText is a table of a node's addresses and what peers found of each; if quiet, it is only
// from where the node can be dialled, in a word.
func addressesText(r api.Reach, quiet bool) string {
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

// doctorText says from where a node can be dialled, why, and what to do; if quiet, it is
// only the word of Addresses.
func doctorText(r api.Reach, quiet bool) string {
	if quiet {
		return addressesText(r, true)
	}
	lines := []string{reachWords[r.From]}
	if len(r.Addrs) > 0 {
		lines = append(lines, "", addressesText(r, false))
	}
	lines = append(lines, "", fmt.Sprintf("%s connected, %d of them can confirm addresses",
		plural(r.Peers, "peer"), r.Confirmers))
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
