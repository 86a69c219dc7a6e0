package dht

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/protocols/b3"
	"allium/protocols/delimited"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/probes"
	"allium/protocols/kad"
	"allium/protocols/status"
)

// lie makes host i answer every get with what answer makes up, and take every put.
func (sn *simNet) lie(i int, answer func(asking peer.ID, root b3.Root) messages.Response) {
	sn.Hosts[i].SetStreamHandler(ProviderID, func(s network.Stream) {
		defer s.Close()
		p, err := delimited.Read(bufio.NewReader(s), messages.MaxMessage)
		if err != nil {
			return
		}
		q, err := messages.DecodeRequest(p)
		if err != nil {
			return
		}
		r := messages.Response{Code: uint64(status.OK.Code())}
		if q.Op == messages.OpGet {
			r = answer(s.Conn().RemotePeer(), q.Root())
		}
		raw, err := r.Encode()
		if err != nil || len(raw) > messages.MaxMessage {
			sn.t.Errorf("a lie of %d bytes, %v", len(raw), err)
			return
		}
		_ = delimited.Write(s, raw)
	})
}

// forged is records that nobody may believe, each refused for another reason.
// honest has a record for another object.
func forged(
	t testing.TB, liar, honest identity, root, other b3.Root,
) (lies []messages.Provider, why []messages.Refusal) {
	t.Helper()
	now := time.Now()
	add := func(reason messages.Refusal, envelope, peerRecord []byte) {
		lies = append(lies, messages.Provider{Envelope: envelope, PeerRecord: peerRecord})
		why = append(why, reason)
	}
	good := honest.seal(t, other, 1, now.Add(time.Hour))
	add(messages.WrongKey, good.Envelope, good.PeerRecord)
	old := honest.seal(t, root, 1, now.Add(-time.Second))
	add(messages.Expired, old.Envelope, old.PeerRecord)
	long := liar.seal(t, root, 1, now.Add(48*time.Hour))
	add(messages.FutureDated, long.Envelope, long.PeerRecord)
	posed, err := messages.Seal(
		liar.key,
		messages.Record{Root: root, Provider: honest.id, Seq: 9, NotAfter: now.Add(time.Hour).Truncate(time.Second)},
		honest.peerRecord(),
	)
	if err != nil {
		t.Fatal(err)
	}
	add(messages.WrongProvider, posed.Envelope, posed.PeerRecord)
	elsewhere := honest.seal(t, root, 1, now.Add(time.Hour)) // the honest peer's own, with the liar's addresses
	add(messages.BadPeerRecord, elsewhere.Envelope, liar.seal(t, root, 1, now.Add(time.Hour)).PeerRecord)
	bent := slices.Clone(liar.seal(t, root, 1, now.Add(time.Hour)).Envelope)
	bent[len(bent)-1] ^= 1
	add(messages.BadSignature, bent, good.PeerRecord)
	bare,
		err := (&messages.Record{Root: root, Provider: honest.id, Seq: 1, NotAfter: now.Add(time.Hour)}).MarshalRecord()
	if err != nil {
		t.Fatal(err)
	}
	add(messages.Unsigned, bare, good.PeerRecord)
	return lies, why
}

// phantoms is n of the peers of all, which do not exist, those nearest to root:
// at public addresses, at private ones, and at none.
func phantoms(all []kad.Peer[peer.ID], root b3.Root, n int) (peers []messages.Peer) {
	target := kad.Hash(root.Multihash())
	slices.SortFunc(all, func(a, b kad.Peer[peer.ID]) int { return target.Compare(a.Key, b.Key) })
	for i, p := range all[:n] {
		w := messages.Peer{ID: []byte(p.ID)}
		if i%4 != 3 {
			w.Addrs = [][]byte{
				ma.StringCast(fmt.Sprintf("/ip4/%s/udp/8000/quic-v1",
					[]string{"45.1.1.1", "45.1.1.2", "10.1.1.1"}[i%4])).Bytes(),
			}
		}
		peers = append(peers, w)
	}
	return peers
}

// TestLiars: of what a peer makes up about providers nothing is believed, and
// the peers it makes up do not keep a lookup from the honest record, or cost it
// more than a few probes.
func TestLiars(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute with the race detector")
	}
	for _, liars := range []int{1, 3} {
		t.Run(fmt.Sprint(liars), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 16
				sn := newSimNet(t, n)
				defer sn.close()
				services, stop := sn.startAll(chaos)
				defer stop()
				time.Sleep(settle)
				honest := services[1 : n-liars]
				roots, owner := publish(t, honest[:4], 12)
				for i := n - liars; i < n; i++ {
					lies := map[b3.Root]messages.Response{}
					reasons := map[messages.Refusal]bool{}
					var invented []kad.Peer[peer.ID]
					for range 400 {
						invented = append(invented, kadPeer(newIdentity(t).id))
					}
					for _, r := range roots {
						at := slices.IndexFunc(sn.ids, func(x identity) bool { return x.id == owner[r] })
						records, why := forged(t, sn.ids[i], sn.ids[at], r, root("another"))
						for _, w := range why {
							reasons[w] = true
						}
						lies[r] = messages.Response{
							Code: uint64(status.OK.Code()), Providers: records,
							Closer: phantoms(invented, r, messages.MaxCloser-2),
						}
					}
					sn.lie(i, func(asking peer.ID, r b3.Root) messages.Response {
						a := lies[r]
						a.Closer = append([]messages.Peer{{ID: []byte(asking)}, {ID: []byte(sn.ids[i].id)}},
							a.Closer...)
						return a
					})
					if len(reasons) != 7 {
						t.Fatalf("lies of %d kinds", len(reasons))
					}
				}

				var first, all measured
				refused := map[messages.Refusal]float64{}
				for i, r := range roots {
					for _, s := range honest[4+i%2 : 8] {
						start, got := time.Now(), false
						var trace probes.Trace
						for p, err := range s.FindProviders(t.Context(), r, FindOptions{Fresh: true, Trace: &trace}) {
							if err != nil {
								if status.Of(err) != status.Timeout {
									t.Errorf("a lookup ended with %v", err)
								}
								continue
							}
							if p.ID != owner[r] || len(p.Addrs) == 0 {
								t.Errorf("a lookup yields %v for %s", p, owner[r])
							}
							if !got {
								first.add(time.Since(start), 0, true)
							}
							got = true
						}
						all.add(time.Since(start), trace.Probes, got)
						if trace.Probes > s.cfg.Load().findConfig().MaxProbes {
							t.Errorf("%d probes", trace.Probes)
						}
					}
				}
				for _, s := range honest {
					for _, why := range []messages.Refusal{
						messages.WrongKey, messages.Expired, messages.FutureDated, messages.WrongProvider,
						messages.BadPeerRecord, messages.BadSignature, messages.Unsigned,
					} {
						refused[why] += testutil.ToFloat64(s.m.rejected.WithLabelValues(string(why)))
					}
				}
				t.Log("first", &first)
				t.Log("all  ", &all)
				for why, n := range refused {
					if n == 0 {
						t.Errorf("no record was refused as %s", why)
					}
				}
				if all.failed > 0 {
					t.Errorf("%d of %d lookups found nobody", all.failed, len(all.took))
				}
			})
		})
	}
}

// TestProviderOfEverything: a peer that says that it has everything is believed
// that, and nothing about others.
func TestProviderOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 8
		sn := newSimNet(t, n)
		defer sn.close()
		services, stop := sn.startAll(chaos)
		defer stop()
		time.Sleep(30 * time.Second)
		roots, owner := publish(t, services[:1], 1)
		liar := sn.ids[n-1]
		sn.lie(n-1, func(_ peer.ID, r b3.Root) messages.Response {
			s := liar.seal(t, r, 1, time.Now().Add(time.Hour))
			return messages.Response{
				Code: uint64(status.OK.Code()),
				Providers: slices.Repeat(
					[]messages.Provider{{Envelope: s.Envelope, PeerRecord: s.PeerRecord}}, messages.MaxProviders,
				),
			}
		})
		for _, r := range []b3.Root{root("what nobody has"), roots[0]} {
			found, err := collect(services[3].FindProviders(t.Context(), r, FindOptions{Fresh: true}))
			ids := map[peer.ID]bool{}
			for _, p := range found {
				ids[p.ID] = true
			}
			want := 1
			if owner[r] != "" {
				want = 2
			}
			if err != nil || len(found) != want || !ids[liar.id] || want == 2 && !ids[owner[r]] {
				t.Errorf("found %v, %v", found, err)
			}
		}
	})
}

// TestEclipse: of those who come to a node 70 % are in one IP group, and they
// come first. In no bucket do they get more than their share, and the others
// get the rest.
func TestEclipse(t *testing.T) {
	if testing.Short() {
		t.Skip("TestProviderOfEverything has the same goroutines")
	}
	synctest.Test(t, func(t *testing.T) {
		const n, share = 80, 8 // 40 % of k = 20
		sn := newSimNet(t, 1)
		defer sn.close()
		s, stop := sn.start(0, nil)
		defer stop()
		self := kad.Hash([]byte(sn.ids[0].id))
		drawn := map[int]int{}
		evil, bucket := map[peer.ID]bool{}, map[peer.ID]int{}
		var first, last []int
		var sender pb.MessageSender // of the last
		for range n {
			i := sn.add(func(me identity) net.IP {
				b := self.CommonPrefix(kad.Hash([]byte(me.id)))
				bucket[me.id] = b
				if drawn[b]++; drawn[b]%10 < 3 {
					return net.IPv4(byte(60+len(sn.Hosts)), 1, 0, 1)
				}
				evil[me.id] = true
				return net.IPv4(45, 66, byte(len(sn.Hosts)), 1)
			})
			d, err := kaddht.New(
				sn.Hosts[i],
				kaddht.ProtocolPrefix(Prefix),
				kaddht.Mode(kaddht.ModeServer),
				kaddht.DisableAutoRefresh(),
				kaddht.DisableProviders(),
				kaddht.DisableValues(),
			)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			sender = d.MessageSender()
			if evil[sn.ids[i].id] {
				first = append(first, i)
			} else {
				last = append(last, i)
			}
		}
		for _, group := range [][]int{first, last} {
			for _, i := range group {
				first := peer.AddrInfo{ID: sn.ids[0].id, Addrs: sn.Hosts[0].Addrs()}
				if err := sn.Hosts[i].Connect(t.Context(), first); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Second)
		}

		came, in, others := map[int]int{}, map[int]int{}, map[int]int{} // by bucket
		for id, b := range bucket {
			if evil[id] {
				came[b]++
			}
		}
		for _, e := range s.Table() {
			if evil[e.ID] {
				in[e.Bucket]++
			} else {
				others[e.Bucket]++
			}
		}
		t.Logf("of the group %v came to the buckets and %v got in, and of the others %v", came, in, others)
		for b, n := range in {
			if n > share {
				t.Errorf("bucket %d holds %d of the group", b, n)
			}
		}
		if came[0] < 2*share {
			t.Errorf("%d of the group came to bucket 0: nothing was put to the test", came[0])
		}
		for b, n := range drawn {
			if want := min(n-came[b], s.cfg.Load().K-in[b]); others[b] < want {
				t.Errorf("bucket %d holds %d that are not of the group, there is room for %d", b, others[b], want)
			}
		}

		// Nor does the node send others to them: what it answers is from kad-dht's table.
		messages, err := pb.NewProtocolMessenger(sender)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range first[:10] {
			near, err := messages.GetClosestPeers(t.Context(), sn.ids[0].id, sn.ids[i].id)
			if err != nil {
				t.Fatal(err)
			}
			told := map[int]int{}
			for _, p := range near {
				if evil[p.ID] && p.ID != sn.ids[i].id { // who is asked about is named in any case
					told[bucket[p.ID]]++
				}
			}
			for b, n := range told {
				if n > share {
					t.Errorf("of bucket %d it names %d of the group", b, n)
				}
			}
		}
	})
}
