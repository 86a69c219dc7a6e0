package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
)

// TestFreeIdentitiesTakeNoPlaces: of the sessions, the handshakes and the requests
// in flight a network has a part, by however many identities it connects; a peer
// of another network is served.
func TestFreeIdentitiesTakeNoPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*session.Config)
		sybil  func(w *wire)
	}{
		"handshakes": {func(c *session.Config) { c.Handshakes = 20 }, func(*wire) {}},
		"sessions":   {func(c *session.Config) { c.Sessions = 20 }, func(w *wire) { w.hello() }},
		"requests": {func(c *session.Config) { c.Workers, c.Ingress = 4, 16 }, func(w *wire) {
			w.hello()
			for corr := range uint64(5) {
				w.ask(corr+1, `{"op":"wait"}`)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
				cfg := session.DefaultConfig()
				test.change(&cfg)
				n := start(t, net.Host("a"), cfg, func(s *session.Service) {
					s.Handle(oap.ProtoIndex, func(ctx context.Context, p peer.ID, _ *session.Request) session.Response {
						if p != "honest" {
							<-ctx.Done()
						}
						return session.Response{Payload: []byte("ok")}
					})
				})
				defer n.stop()
				in := 0
				for i := range 30 {
					id := peer.ID(fmt.Sprint("sybil ", i))
					net.Place(id, ma.StringCast(fmt.Sprintf("/ip4/66.1.%d.1/tcp/1", i)))
					w := dial(t, net.Host(id), "a")
					synctest.Wait()
					if w.stream.Err() != nil {
						continue
					}
					in++
					test.sybil(w)
				}
				synctest.Wait()
				if in == 0 || name != "requests" && in > 4 {
					t.Errorf("%d sessions of one network", in)
				}
				net.Place("honest", ma.StringCast("/ip4/8.8.8.8/tcp/1"))
				w := dial(t, net.Host("honest"), "a")
				w.hello()
				elapsed(t, 0, func() {
					for corr := range uint64(3) {
						w.ask(corr+1, `{"op":"x"}`)
						w.wantAnswer(corr+1, 200, "ok")
					}
				})
			})
		})
	}
}

// TestFreeIdentitiesBringNoTokens: identities of one network have a rate together,
// new ones no full bucket each.
func TestFreeIdentitiesBringNoTokens(t *testing.T) {
	bubble(t, testkit.Options{}, func(t *testing.T, net *testkit.Network) {
		cfg := session.DefaultConfig()
		cfg.ControlRate = 4
		n := start(t, net.Host("a"), cfg, func(*session.Service) {})
		defer n.stop()
		served := 0
		for i := range 20 {
			id := peer.ID(fmt.Sprint("sybil ", i))
			net.Place(id, ma.StringCast(fmt.Sprintf("/ip4/66.1.%d.1/tcp/1", i)))
			w := dial(t, net.Host(id), "a")
			w.hello()
			for corr := range uint64(4) {
				w.send(oap.Header{Flags: whole, CorrID: corr + 1}, "ping")
				if w.recv().Code == 200 {
					served++
				}
			}
		}
		if served < 32 || served > 40 {
			t.Errorf("%d of 80 requests were served", served)
		}
		net.Place("honest", ma.StringCast("/ip4/8.8.8.8/tcp/1"))
		w := dial(t, net.Host("honest"), "a")
		w.hello()
		w.send(oap.Header{Flags: whole, CorrID: 1}, "ping")
		if f := w.recv(); f.Code != 200 {
			t.Errorf("another network's peer got %d", f.Code)
		}
		time.Sleep(time.Second)
	})
}
