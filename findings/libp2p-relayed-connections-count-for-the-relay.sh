#!/usr/bin/env bash
# go-libp2p counts a relayed inbound connection for the IP address of the relay.
#
# go-libp2p v0.51.0, resource manager with its default limits. A node behind a NAT has a reservation
# at one public relay. Its clients are different peers in different networks, but the endpoint that
# the resource manager sees is /ip4/RELAY/…/p2p/ID/p2p-circuit, so that all count for the relay's
# address, which may have 8. The ninth client is refused, whoever it is. Direct connections from 40
# addresses are all let in.
#
# Seen: 8 of 40 relayed connections, 40 of 40 direct ones.
# For a node that is reached through relays: count relayed connections in another way, and exempt
# p2p-circuit endpoints from the limits per address.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	ma "github.com/multiformats/go-multiaddr"
)

// relay is the peer of the relay, made for this.
const relay = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"

func opened(address func(i int) string) (n int) {
	m, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(rcmgr.DefaultLimits.AutoScale()))
	if err != nil {
		panic(err)
	}
	defer m.Close()
	for i := range 40 {
		if _, err := m.OpenConnection(network.DirInbound, false, ma.StringCast(address(i))); err == nil {
			n++
		} else if n == i {
			fmt.Printf("  the first refusal: %v\n", err)
		}
	}
	return n
}

func main() {
	relayed := opened(func(int) string { return "/ip4/198.51.100.7/udp/4001/quic-v1/p2p/" + relay + "/p2p-circuit" })
	direct := opened(func(i int) string { return fmt.Sprintf("/ip4/203.0.%d.9/udp/4001/quic-v1", i) })
	fmt.Printf("relayed connections let in: %d of 40\ndirect connections let in: %d of 40\n", relayed, direct)
	if relayed != 8 || direct != 40 {
		fmt.Println("CHANGED: expected 8 and 40")
		os.Exit(1)
	}
}
GO
go mod init finding >/dev/null 2>&1
go get github.com/libp2p/go-libp2p@v0.51.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
echo "go-libp2p $(go list -m -f '{{.Version}}' github.com/libp2p/go-libp2p)"
go run .
