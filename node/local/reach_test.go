package local

import (
	"strings"
	"testing"

	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
)

func TestReach(t *testing.T) {
	t.Parallel()
	addrs := func(texts ...string) (all []ma.Multiaddr) {
		for _, s := range texts {
			a, err := ma.NewMultiaddr(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a)
		}
		return all
	}
	const (
		loop, lan, lan6 = "/ip4/127.0.0.1/tcp/4901", "/ip4/192.168.1.7/tcp/4901", "/ip6/fd00::7/udp/4901/quic-v1"
		tcp, quic       = "/ip4/8.8.8.8/tcp/4901", "/ip4/8.8.8.8/udp/4901/quic-v1"
		relay           = "/ip4/9.9.9.9/tcp/4901/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6/p2p-circuit"
		name            = "/dns4/node.example/tcp/443/wss"
	)
	type states map[string]api.ReachState
	for title, c := range map[string]struct {
		known  reachKnown
		from   api.ReachFrom
		states states
		advice string // words of it; empty: none
	}{
		"nothing": {from: api.ReachNobody, advice: "does not listen"},
		"loopback alone": {
			reachKnown{addrs: addrs(loop), own: addrs(loop)}, api.ReachMachine,
			states{loop: api.ReachUnchecked}, "loopback alone",
		},
		"behind a router": {
			reachKnown{addrs: addrs(loop, lan, lan6), own: addrs(loop, lan, lan6)}, api.ReachLAN,
			states{lan: api.ReachUnchecked, lan6: api.ReachUnchecked}, "forward TCP port 4901, UDP port 4901",
		},
		"nobody to confirm": {
			reachKnown{addrs: addrs(tcp), own: addrs(tcp)}, api.ReachUnconfirmed,
			states{tcp: api.ReachUnknown}, "connect to more peers",
		},
		"not confirmed yet": {
			reachKnown{addrs: addrs(tcp), own: addrs(tcp), peers: 1, confirmers: 1}, api.ReachUnconfirmed,
			states{tcp: api.ReachUnknown}, "ask again",
		},
		"confirmed": {
			reachKnown{addrs: addrs(lan, tcp, quic), own: addrs(lan), reachable: addrs(tcp, quic)}, api.ReachAnyone,
			states{lan: api.ReachUnchecked, tcp: api.ReachConfirmed, quic: api.ReachConfirmed}, "",
		},
		"UDP is closed": {
			reachKnown{addrs: addrs(lan, tcp), own: addrs(lan), reachable: addrs(tcp), unreachable: addrs(quic)},
			api.ReachAnyone, states{tcp: api.ReachConfirmed, quic: api.ReachUnreachable},
			"do not get through to UDP port 4901",
		},
		"all is closed": {
			reachKnown{addrs: addrs(tcp), own: addrs(tcp), unreachable: addrs(tcp)}, api.ReachNobody,
			states{tcp: api.ReachUnreachable}, "do not get through to TCP port 4901",
		},
		"closed, with a LAN": {
			reachKnown{addrs: addrs(lan, tcp), own: addrs(lan), unreachable: addrs(tcp)}, api.ReachLAN,
			states{tcp: api.ReachUnreachable}, "do not get through",
		},
		"a relay": {
			reachKnown{addrs: addrs(lan, relay), own: addrs(lan)}, api.ReachRelay,
			states{relay: api.ReachUnchecked}, "forward TCP port 4901",
		},
		"a name": {
			reachKnown{addrs: addrs(name), peers: 2, confirmers: 1}, api.ReachUnconfirmed,
			states{name: api.ReachUnknown}, "ask again",
		},
	} {
		got := c.known.report()
		if got.From != c.from || got.Peers != c.known.peers || got.Confirmers != c.known.confirmers {
			t.Errorf("%s: %+v, want %s", title, got, c.from)
		}
		found := states{}
		for _, a := range got.Addrs {
			found[a.Addr] = a.State
		}
		for a, want := range c.states {
			if found[a] != want {
				t.Errorf("%s: %s is %q, want %q", title, a, found[a], want)
			}
		}
		advice := strings.Join(got.Advice, "\n")
		if (c.advice == "") != (advice == "") || !strings.Contains(advice, c.advice) {
			t.Errorf("%s: advice %q, want %q", title, advice, c.advice)
		}
	}
}
