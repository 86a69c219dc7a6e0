package p2p

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

// TestRankDials checks the order and the delays of the dials to one peer.
func TestRankDials(t *testing.T) {
	const (
		loTCP, loQUIC   = "/ip4/127.0.0.1/tcp/4901", "/ip4/127.0.0.1/udp/4901/quic-v1"
		lanTCP, lanQUIC = "/ip4/192.168.1.7/tcp/4901", "/ip4/192.168.1.7/udp/4901/quic-v1"
		ulaTCP          = "/ip6/fd00::7/tcp/4901"
		ulaQUIC         = "/ip6/fd00::7/udp/4901/quic-v1"
		wanTCP, wanQUIC = "/ip4/8.8.8.8/tcp/4901", "/ip4/8.8.8.8/udp/4901/quic-v1"
		wan6QUIC        = "/ip6/2001:4860::8/udp/4901/quic-v1"
		lanWS           = "/ip4/192.168.1.7/tcp/4902/ws"
		lanWebTransport = "/ip4/192.168.1.7/udp/4903/quic-v1/webtransport"
		relay           = "/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA/p2p-circuit"
		viaTCP          = "/ip4/9.9.9.9/tcp/4901" + relay
		viaQUIC         = "/ip4/9.9.9.9/udp/4901/quic-v1" + relay
		viaLAN          = "/ip4/192.168.1.9/tcp/4901" + relay
	)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	type dial struct {
		addr string
		at   time.Duration
	}
	for name, c := range map[string]struct {
		addrs []string
		want  []dial
	}{
		"none":                {},
		"loopback":            {[]string{loQUIC, loTCP}, []dial{{loTCP, 0}, {loQUIC, ms(100)}}},
		"LAN":                 {[]string{lanQUIC, lanTCP}, []dial{{lanTCP, 0}, {lanQUIC, ms(100)}}},
		"LAN, QUIC only":      {[]string{lanQUIC}, []dial{{lanQUIC, 0}}},
		"LAN, TCP only":       {[]string{lanTCP}, []dial{{lanTCP, 0}}},
		"elsewhere":           {[]string{wanTCP, wanQUIC}, []dial{{wanQUIC, 0}, {wanTCP, ms(250)}}},
		"elsewhere, TCP only": {[]string{wanTCP}, []dial{{wanTCP, 0}}},
		"LAN of both families": {[]string{lanTCP, lanQUIC, ulaQUIC, ulaTCP},
			[]dial{{ulaTCP, 0}, {lanTCP, ms(30)}, {ulaQUIC, ms(130)}, {lanQUIC, ms(160)}}},
		"LAN and elsewhere": {[]string{wanTCP, lanQUIC, wanQUIC, lanTCP},
			[]dial{{lanTCP, 0}, {wanQUIC, 0}, {lanQUIC, ms(100)}, {wanTCP, ms(250)}}},
		"web transports": {[]string{lanWebTransport, lanWS}, []dial{{lanWS, 0}, {lanWebTransport, ms(100)}}},
		"relay only":     {[]string{viaTCP, viaQUIC}, []dial{{viaQUIC, 0}, {viaTCP, ms(250)}}},
		"relay beside a LAN": {[]string{viaTCP, lanTCP, lanQUIC},
			[]dial{{lanTCP, 0}, {lanQUIC, ms(100)}, {viaTCP, ms(250)}}},
		"a relay on the LAN is a relay": {[]string{viaLAN, wanQUIC}, []dial{{wanQUIC, 0}, {viaLAN, ms(250)}}},
		"relay beside elsewhere": {[]string{viaQUIC, wanTCP, wanQUIC, wan6QUIC},
			[]dial{{wan6QUIC, 0}, {wanQUIC, ms(250)}, {wanTCP, ms(500)}, {viaQUIC, ms(500)}}},
	} {
		t.Run(name, func(t *testing.T) {
			var addrs []ma.Multiaddr
			for _, s := range c.addrs {
				addrs = append(addrs, ma.StringCast(s))
			}
			before := slices.Clone(addrs)
			ranked := rankDials(addrs)
			slices.SortStableFunc(ranked, func(a, b network.AddrDelay) int { return int(a.Delay - b.Delay) })
			var got []dial
			for _, d := range ranked {
				got = append(got, dial{d.Addr.String(), d.Delay})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if !slices.EqualFunc(addrs, before, ma.Multiaddr.Equal) {
				t.Errorf("the caller's addresses changed to %v", addrs)
			}
		})
	}
}

// TestDialsTCPNearby checks that a host with both transports is connected over TCP on loopback, and
// one with one of them over that.
func TestDialsTCPNearby(t *testing.T) {
	for name, c := range map[string]struct {
		listen []string
		want   string
	}{
		"both": {[]string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}, "tcp"},
		"QUIC": {[]string{"/ip4/127.0.0.1/udp/0/quic-v1"}, "quic-v1"},
		"TCP":  {[]string{"/ip4/127.0.0.1/tcp/0"}, "tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			config := testnetConfig(t)
			config.Listen = c.listen
			to := build(t, config, Deps{})
			from := build(t, testnetConfig(t), Deps{})
			from.Peerstore().AddAddrs(to.ID(), to.Addrs(), time.Hour)
			conn, err := from.Network().DialPeer(timeout(t), to.ID())
			if err != nil {
				t.Fatal(err)
			}
			if got := conn.ConnState().Transport; got != c.want {
				t.Errorf("connected over %s, want %s", got, c.want)
			}
		})
	}
}
