package p2p

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers every question for TXT with one text, on loopback, until the test ends.
type nameServer struct {
	conn net.PacketConn

	mu   sync.Mutex
	text string
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return s
}

func (s *nameServer) set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		if q.Type == dnsmessage.TypeTXT {
			s.mu.Lock()
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.TXTResource{TXT: []string{s.text}},
			}}
			s.mu.Unlock()
		}
		if out, err := m.Pack(); err == nil {
			_, _ = s.conn.WriteTo(out, from)
		}
	}
}

// TestDNSAddrIsLookedUpAgain: each dial of a /dnsaddr asks the resolver of the system, which knows the TTL. A seed
// that has moved is found at its new address, although the old one is still remembered.
func TestDNSAddrIsLookedUpAgain(t *testing.T) {
	names := newNameServer(t)
	preferGo, dial := net.DefaultResolver.PreferGo, net.DefaultResolver.Dial
	t.Cleanup(func() { net.DefaultResolver.PreferGo, net.DefaultResolver.Dial = preferGo, dial })
	net.DefaultResolver.PreferGo = true
	net.DefaultResolver.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp4", names.conn.LocalAddr().String())
	}
	a := build(t, testnetConfig(t), Deps{})
	key := newKey(t)
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	seed := peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{ma.StringCast("/dnsaddr/seed.test/p2p/" + id.String())}}
	for _, when := range []string{"before", "after"} {
		c := testnetConfig(t)
		c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
		b, err := New(c, Deps{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		h, err := b.Build(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names.set("dnsaddr=" + h.Addrs()[0].String() + "/p2p/" + id.String())
		if err := a.Connect(timeout(t), seed); err != nil {
			t.Errorf("%s it moved: %v", when, err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		b.Wait()
		_ = a.Network().ClosePeer(id)
	}
}
