package doctor_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/node/doctor"
	"allium/node/p2p/reach"
	"allium/protocols/status"
)

// dialer is a node that dials as a test says.
type dialer struct {
	network string
	peers   []api.Peer
	dials   map[string]error
	ping    error
}

func (d *dialer) ID(context.Context) (api.ID, error) {
	return api.ID{ID: selfID, Network: d.network}, nil
}
func (d *dialer) Peers(context.Context) ([]api.Peer, error) {
	return d.peers, nil
}
func (d *dialer) Connect(_ context.Context, addr string) (api.Peer, error) {
	return api.Peer{}, d.dials[addr]
}
func (d *dialer) Ping(context.Context, string) (api.Pong, error) { return api.Pong{}, d.ping }

// failed is the error of a dial as the node words it.
func failed(t *testing.T, addr string, cause error) error {
	t.Helper()
	id, err := peer.Decode(seedID)
	if err != nil {
		t.Fatal(err)
	}
	if addr == "" {
		return reach.DialError(id, cause)
	}
	return reach.DialError(id, &swarm.DialError{
		Peer: id, DialErrors: []swarm.TransportError{{Address: ma.StringCast(addr), Cause: cause}},
	})
}

// TestDiagnose: what is in the way to a peer is named, and on which side it is.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	const suffix = "/p2p/" + seedID
	const public, private, v6 = "/ip4/1.1.1.1/tcp/4901", "/ip4/192.168.77.5/tcp/4901", "/ip6/2a00::1/tcp/4901"
	other, err := peer.Decode(selfID)
	if err != nil {
		t.Fatal(err)
	}
	mine := []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24")}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}
	some := []api.Peer{{ID: "other", Addr: public}}
	negotiate := errors.New("failed to negotiate security protocol: EOF")
	const network = "0011223344556677"
	said := func(s string) error { return status.Errorf(status.TransportDown, "%s %s", seedID, s) }
	known := func(addr string) dialer { return dialer{peers: []api.Peer{{ID: seedID, Addr: addr}}} }
	after := func(addr string, err error) dialer {
		return dialer{peers: some, dials: map[string]error{addr + suffix: err}}
	}
	for _, c := range []struct {
		name  string
		id    string
		addrs []string
		node  dialer
		own   []netip.Prefix
		want  doctor.Verdict
		side  string
	}{
		{"itself", selfID, nil, dialer{}, mine, doctor.Itself, "here"},
		{"connected", seedID, nil, known(public), mine, doctor.Reached, "none"},
		{"relayed", seedID, nil, known(public + "/p2p/" + selfID + "/p2p-circuit"), mine, doctor.RelayOnly, "between"},
		{"reached", seedID, []string{public}, dialer{}, mine, doctor.Reached, "none"},
		{"refused", seedID, []string{public}, after(public, failed(t, public, errors.New("connection refused"))), mine,
			doctor.Refused, "there"},
		{"silent", seedID, []string{public}, after(public, failed(t, public, context.DeadlineExceeded)), mine,
			doctor.Silent, "between"},
		{"offline", seedID, []string{public}, dialer{dials: map[string]error{
			public + suffix: failed(t, public, context.DeadlineExceeded),
		}}, loopback, doctor.Offline, "here"},
		{"another LAN", seedID, []string{private}, after(private, failed(t, private, context.DeadlineExceeded)), mine,
			doctor.Private, "there"},
		{"no IPv6", seedID, []string{v6}, after(v6, failed(t, v6, errors.New("network is unreachable"))), mine,
			doctor.NoRoute, "here"},
		{"another peer", seedID, []string{public},
			after(public, failed(t, "", sec.ErrPeerIDMismatch{Expected: "x", Actual: other})), mine,
			doctor.OtherPeer, "there"},
		{"denied here", seedID, []string{public},
			after(public, failed(t, "", errors.New("gater disallows connection to peer"))), mine,
			doctor.DeniedHere, "here"},
		{"denied there", seedID, []string{public},
			after(public, said("refuses this node: its operator does not let it connect (listen.deny, listen.allow)")), mine,
			doctor.DeniedThere, "there"},
		{"protocol", seedID, []string{public}, after(public, failed(t, "", negotiate)), mine, doctor.Protocol, "there"},
		{"another key", seedID, []string{public}, dialer{network: network, peers: some, dials: map[string]error{
			public + suffix: failed(t, "", negotiate),
		}}, mine, doctor.OtherNetwork, "between"},
		{"the clock", seedID, []string{public},
			after(public, failed(t, "", errors.New("tls: expired certificate"))), mine,
			doctor.WrongClock, "between"},
		{"at its limit", seedID, []string{public},
			after(public, said("closed the connection at once: it is at its limit; try later")), mine,
			doctor.AtLimit, "there"},
		{"no address", seedID, nil, dialer{peers: some, ping: said("cannot be reached (no addresses)")}, mine,
			doctor.NoAddress, "between"},
		{"the most telling", seedID, []string{private, public}, dialer{peers: some, dials: map[string]error{
			private + suffix: failed(t, private, context.DeadlineExceeded),
			public + suffix:  failed(t, public, errors.New("connection refused")),
		}}, mine, doctor.Refused, "there"},
	} {
		who := doctor.Who{ID: c.id}
		for _, addr := range c.addrs {
			who.Addrs = append(who.Addrs, addr+suffix)
		}
		d, err := doctor.Diagnose(t.Context(), &c.node, who, c.own)
		if err != nil || d.Verdict != c.want || d.Side != c.side || d.Fix == "" || strings.Contains(d.Evidence, "; ") {
			t.Errorf("%s: %+v, %v; want %s", c.name, d, err, c.want)
		}
		if d.Good() != (c.want == doctor.Reached) {
			t.Errorf("%s: good %v", c.name, d.Good())
		}
	}
}

// TestDiagnoseTicket: a ticket of another private network needs no dial.
func TestDiagnoseTicket(t *testing.T) {
	t.Parallel()
	who := doctor.Who{ID: seedID, Network: "0011223344556677", Ticket: true}
	d, err := doctor.Diagnose(t.Context(), &dialer{}, who, nil)
	if err != nil || d.Verdict != doctor.OtherNetwork {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestParseWho: ids, addresses and tickets name a peer, and nothing else does.
func TestParseWho(t *testing.T) {
	t.Parallel()
	addr := "/ip4/1.1.1.1/tcp/4901/p2p/" + seedID
	who, err := doctor.ParseWho(addr)
	if err != nil || who.ID != seedID || len(who.Addrs) != 1 || who.Addrs[0] != addr {
		t.Errorf("%+v, %v", who, err)
	}
	if who, err := doctor.ParseWho(seedID); err != nil || who.ID != seedID || len(who.Addrs) != 0 {
		t.Errorf("%+v, %v", who, err)
	}
	for _, bad := range []string{"", "me", "/ip4/1.1.1.1/tcp/4901", "allium1qqqq"} {
		if _, err := doctor.ParseWho(bad); err == nil {
			t.Errorf("%q names a peer", bad)
		}
	}
}
