package dht

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"allium/protocols/b3"
	"allium/protocols/delimited"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/probes"
	"allium/protocols/kad"
)

// sybils is an attacker's hosts: they say of every object that all of them have
// it, to those who keep records and to those who ask, drop the records they are
// given, and know nobody but each other.
type sybils struct {
	t      testing.TB
	sn     *simNet
	places []place
	ids    []identity

	mu      sync.Mutex
	records map[b3.Root][]messages.Sealed
}

// of are the records of all Sybils for root, which claim to live as long as
// anyone accepts.
func (y *sybils) of(root b3.Root) []messages.Sealed {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.records[root] == nil {
		for i, p := range y.places {
			rec, err := messages.Seal(
				y.ids[i].key,
				messages.Record{
					Root:     root,
					Provider: p.self,
					Seq:      1,
					NotAfter: time.Now().Add(messages.MaxLifetime +
						messages.ClockSkew - 10*time.Second).Truncate(time.Second),
				},
				peer.PeerRecordFromAddrInfo(peer.AddrInfo{ID: p.self, Addrs: p.deps.Host.Addrs()}),
			)
			if err != nil {
				y.t.Fatal(err)
			}
			y.records[root] = append(y.records[root], rec)
		}
	}
	return y.records[root]
}

// nearest is the Sybils closest to a key.
func (y *sybils) nearest(key []byte) (infos []peer.AddrInfo) {
	target := kad.Hash(key)
	near := slices.Clone(y.places)
	slices.SortFunc(near, func(a, b place) int {
		return target.Compare(kad.Hash([]byte(a.self)), kad.Hash([]byte(b.self)))
	})
	for _, p := range near[:min(len(near), messages.MaxCloser)] {
		infos = append(infos, peer.AddrInfo{ID: p.self, Addrs: p.deps.Host.Addrs()})
	}
	return infos
}

// lie takes the Sybils' places in the network.
func (y *sybils) lie() {
	for i, p := range y.places {
		y.sn.lie(len(y.sn.Hosts)-len(y.places)+i, func(_ peer.ID, r b3.Root) messages.Response {
			records := slices.Clone(y.of(r))
			rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
			return messages.ProviderResponse(records, y.nearest(r.Multihash()))
		})
		p.deps.Host.SetStreamHandler(KadID, func(s network.Stream) {
			defer s.Close()
			in := bufio.NewReader(s)
			for {
				raw, err := delimited.Read(in, messages.MaxMessage)
				if err != nil {
					return
				}
				var m pb.Message
				if proto.Unmarshal(raw, &m) != nil {
					return
				}
				m.CloserPeers = pb.RawPeerInfosToPBPeers(y.nearest(m.GetKey()))
				if raw, err = proto.Marshal(&m); err != nil || delimited.Write(s, raw) != nil {
					return
				}
			}
		})
	}
}

// flood gives every Sybil's record for root to the k honest hosts closest to it.
func (y *sybils) flood(ctx context.Context, honest []place, root b3.Root) {
	target := kad.Hash(root.Multihash())
	near := slices.Clone(honest)
	slices.SortFunc(near, func(a, b place) int {
		return target.Compare(kad.Hash([]byte(a.self)), kad.Hash([]byte(b.self)))
	})
	var puts sync.WaitGroup
	for i, rec := range y.of(root) {
		puts.Go(func() {
			for _, h := range near[:min(len(near), keepers)] {
				_ = y.places[i].providers.put(ctx, h.self, rec) // may be refused
			}
		})
	}
	puts.Wait()
}

// keepers is how many hosts keep a record.
const keepers = messages.MaxCloser

// TestSybils: a fifth of the hosts are Sybils from a few networks. They name
// themselves as providers of every object to all who keep its records, before its
// provider does and after, and lead lookups to each other. The provider is found
// all the same. ALLIUM_SIM_HOSTS=200 plays it in full.
func TestSybils(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute with the race detector")
	}
	const few = 60
	sc := scenario{hosts: simHosts(t, few), seekers: 5, objects: 6, lookups: 60, sybilNets: 2}
	if sc.hosts > few {
		sc.seekers, sc.objects, sc.lookups, sc.sybilNets = 10, 20, 500, 4
	}
	sc.sybils = sc.hosts / 5
	sc.change = func(c *Config) { c.MaxPerKey = min(messages.MaxProviders, sc.sybils/2) } // so that they can fill a key
	var m measured
	named, networks := 0, map[bool]int{}
	synctest.Test(t, func(t *testing.T) {
		sn, places, stop := sc.build(t, (*Service).newKad)
		defer stop()
		honest := places[:sc.hosts-sc.sybils]
		y := &sybils{
			t: t, sn: sn, places: places[len(honest):], ids: sn.ids[len(honest):],
			records: map[b3.Root][]messages.Sealed{},
		}
		for _, p := range y.places {
			for _, h := range honest {
				p.deps.Host.Peerstore().AddAddrs(h.self, h.deps.Host.Addrs(), time.Hour)
			}
		}
		y.lie()
		rng := rand.New(rand.NewPCG(1, 2))
		var roots []b3.Root
		owner := map[b3.Root]peer.ID{}
		for i := range sc.objects {
			r, p := root(fmt.Sprint("object ", i)), honest[sc.seekers+rng.IntN(len(honest)-sc.seekers)]
			roots, owner[r] = append(roots, r), p.self
			if i%2 == 0 {
				y.flood(t.Context(), honest, r)
			}
			if _, err := p.Provide(t.Context(), r); err != nil {
				t.Errorf("the Sybils keep a record out: %v", err)
			}
			y.flood(t.Context(), honest, r)
		}
		time.Sleep(time.Minute) // providers are dialled back
		for _, p := range honest {
			for _, r := range roots {
				for _, rec := range p.store.get(r, messages.MaxProviders, time.Now()) {
					networks[rec.Provider == owner[r]]++
				}
			}
		}
		sc.draw(honest[:sc.seekers], roots, owner, func(s place, r b3.Root, _ []byte) {
			start, got := time.Now(), false
			var trace probes.Trace
			for p, err := range s.FindProviders(t.Context(), r, FindOptions{Fresh: true, Trace: &trace}) {
				if err == nil && p.ID == owner[r] && !got {
					got = true
					m.add(time.Since(start), 0, true)
				}
				named++
			}
			if m.probes += trace.Probes; !got {
				m.add(time.Since(start), 0, false)
			}
		})
	})
	m.name = fmt.Sprintf("%d hosts, %d Sybils", sc.hosts, sc.sybils)
	t.Logf(
		"%s; %.1f providers named by a lookup; held: %d honest records, %d of Sybils",
		&m,
		float64(named)/float64(len(m.took)),
		networks[true],
		networks[false],
	)
	if share := float64(m.failed) / float64(len(m.took)); share > 0.01 {
		t.Errorf("%.1f %% of the lookups did not find the provider", 100*share)
	}
}
