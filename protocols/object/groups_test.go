package object

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/testkit"
	"allium/protocols/oap"
)

// TestFreeIdentitiesTakeNoPlaces: of the streams and of the requests in flight a
// network has a part, by however many identities it asks; a peer of another is
// served.
func TestFreeIdentitiesTakeNoPlaces(t *testing.T) {
	for _, what := range []string{"streams", "requests"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Serving, cfg.ServingWait = 16, 4
				if what == "streams" {
					cfg.InboundStreams = 20
				}
				p := newPair(t, testkit.Options{}, cfg)
				held, other := p.store.put(testData(10, 1)), p.store.put(testData(10, 2))
				gate := make(chan struct{})
				p.store.gate = gate
				open := func(id, addr string) *asker {
					p.net.Place(peer.ID(id), ma.StringCast(addr))
					st, err := p.net.Host(peer.ID(id)).NewStream(t.Context(), serverID, ProtocolID)
					if err != nil {
						t.Fatal(err)
					}
					return &asker{t: t, st: st, r: oap.NewReader(st, oap.MaxFrame)}
				}
				in := 0
				for i := range 30 {
					a := open(fmt.Sprint("sybil ", i), fmt.Sprintf("/ip4/66.1.%d.1/tcp/1", i))
					synctest.Wait()
					if s, ok := a.st.(*testkit.Stream); ok && s.Err() != nil {
						continue
					}
					in++
					a.want(1, getOf(held))
					synctest.Wait()
				}
				if in == 0 || what == "streams" && in > 4 {
					t.Errorf("%d streams of one network", in)
				}
				if n := p.server.bounds.asking.Free(); n < cfg.Serving/2 {
					t.Errorf("%d places are free", n)
				}
				a := open("honest", "/ip4/8.8.8.8/tcp/1")
				a.want(1, getOf(other))
				synctest.Wait()
				close(gate)
				if f, _ := a.end(); f.Code != 200 {
					t.Errorf("another network's peer got %d", f.Code)
				}
			})
		})
	}
}
