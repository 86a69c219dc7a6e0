package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// TestRealHosts runs sessions over libp2p's own streams, whose deadlines,
// closes and resets are not testkit's.
func TestRealHosts(t *testing.T) {
	for _, addr := range []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"} {
		t.Run(strings.Split(addr, "/")[3], func(t *testing.T) {
			a, b := realHost(t, addr), realHost(t, addr)
			a.Peerstore().AddAddrs(b.ID(), b.Addrs(), peerstore.PermanentAddrTTL)
			client, stopClient := runOn(t, a, session.DefaultConfig(), nil)
			defer stopClient()
			server, stopServer := runOn(t, b, session.DefaultConfig(), echo)
			defer stopServer()

			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					want := fmt.Sprintf(`{"op":"x","i":%d,"text":"%s"}`, i, strings.Repeat("ab", i*300))
					if p, err := client.Call(t.Context(), b.ID(), oap.ProtoIndex, []byte(want)); err != nil ||
						string(p) != want {
						t.Errorf("%d: %.60s, %v", i, p, err)
					}
				})
			}
			wg.Wait()
			if rtt, err := client.Ping(t.Context(), b.ID()); err != nil || rtt <= 0 {
				t.Errorf("ping: %s, %v", rtt, err)
			}
			if i := server.Sessions(); len(i) != 1 || i[0].Peer != a.ID() {
				t.Errorf("%+v", i)
			}
			stopServer()
			if _, err := client.Call(t.Context(), b.ID(), oap.ProtoIndex,
				[]byte(`{}`)); status.Of(err) != status.TransportDown {
				t.Errorf("a call to a stopped service: %v", err)
			}
		})
	}
}

func realHost(t testing.TB, addr string) host.Host {
	t.Helper()
	h, err := libp2p.New(libp2p.ListenAddrStrings(addr), libp2p.DisableRelay())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// runOn runs a service on a host until stop.
func runOn(t testing.TB, h host.Host, cfg session.Config, prepare func(*session.Service)) (s *session.Service,
	stop func()) {
	t.Helper()
	s, err := session.New(cfg, session.Deps{Host: h, UserAgent: "allium/test"})
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(s)
	}
	return s, run(t, s)
}
