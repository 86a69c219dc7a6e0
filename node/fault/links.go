package fault

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/latch"
)

// Links makes the links of one host bad, for testnets: a host that is built
// with it can be told, at any time, to cut, delay or lose what passes between it
// and a peer, and how much it may send. Connections that are there and new ones
// follow.
//
// Over TCP the bytes of a connection are held up below its security; over QUIC
// packets are dropped and held up by address, which Links learns from dials and
// connections. While there is a fault QUIC sends without segmentation offload
// and ECN, outside of Linux always. Nobody is told of a cut: a dial to a peer
// that is cut off, or from it, ends by its timeout.
//
// Invariants: what is held up is bounded, in bytes for each TCP connection and
// in packets for each socket; a TCP connection keeps its order; Close ends every
// wait.
type Links struct {
	state atomic.Pointer[links] // replaced, never changed
	packs *prometheus.CounterVec
	cut   prometheus.Counter // of packs, like those below
	lost  prometheus.Counter
	full  prometheus.Counter
	late  prometheus.Counter

	mu   sync.Mutex
	seen map[netip.AddrPort]peer.ID // at most maxSeen UDP addresses, by who is there

	sending latch.Latch // packets that were held up
	closing sync.Once
	done    chan struct{} // closed by Close
}

// maxSeen bounds the addresses that are remembered; of more some are forgotten.
const maxSeen = 4096

// Link is what happens to what passes between the host and one peer. Delay and
// loss are of what the host sends.
type Link struct {
	Peer   peer.ID
	Addrs  []ma.Multiaddr // where the peer listens, beside what the host finds out
	Cut    bool           // nothing passes, either way
	Delay  time.Duration  // one way
	Jitter time.Duration  // at most this much more
	Loss   float64        // of packets, 0 to 1; TCP sends a lost one again
}

// links is what holds at one time.
type links struct {
	peers   map[peer.ID]*Link
	addrs   map[netip.AddrPort]*Link
	rate    *shaper       // nil: no bound
	changed chan struct{} // closed when something else holds
}

// clean reports whether there is no fault at all.
func (l *links) clean() bool { return len(l.peers) == 0 && l.rate == nil }

// NewLinks returns the faults of a host that has none yet. Without reg its
// metrics are not registered.
func NewLinks(reg prometheus.Registerer) *Links {
	f := &Links{
		seen: map[netip.AddrPort]peer.ID{}, done: make(chan struct{}),
		packs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fault_packets_total", Help: "Packets, and pieces of TCP streams, that a node of a testnet did something to on purpose: cut, loss (dropped; over TCP late by a retransmission), full (dropped, too many were held up), delay (held up).",
		}, []string{"kind"}),
	}
	f.cut, f.lost = f.packs.WithLabelValues("cut"), f.packs.WithLabelValues("loss")
	f.full, f.late = f.packs.WithLabelValues("full"), f.packs.WithLabelValues("delay")
	if reg != nil {
		reg.MustRegister(f.packs)
	}
	f.state.Store(&links{changed: make(chan struct{})})
	return f
}

// Set replaces what holds. rate is in bytes per second of all that is sent, 0 is
// no bound. What is held up under a fault that is gone leaves at once.
func (f *Links) Set(faulty []Link, rate int64) {
	next := &links{peers: map[peer.ID]*Link{}, addrs: map[netip.AddrPort]*Link{}, changed: make(chan struct{})}
	for _, l := range faulty {
		next.peers[l.Peer] = &l
		for _, a := range l.Addrs {
			if at, ok := udpAddr(a); ok {
				next.addrs[at] = &l
			}
		}
	}
	if rate > 0 {
		next.rate = &shaper{rate: rate}
	}
	close(f.state.Swap(next).changed)
}

// Close ends what is left of the host's connections and waits for it. It is
// called after the host was closed.
func (f *Links) Close() {
	f.closing.Do(func() { close(f.done) })
	f.sending.Wait()
}

// run runs send beside its caller, unless Close was called.
func (f *Links) run(send func()) bool { return f.sending.Go(send) }

// Cut reports whether a peer is cut off.
func (f *Links) Cut(id peer.ID) bool {
	l := f.state.Load().peers[id]
	return l != nil && l.Cut
}

// to is the link to a UDP address; nil: it is as it should be.
func (f *Links) to(st *links, addr net.Addr) *Link {
	if len(st.peers) == 0 {
		return nil
	}
	u, ok := addr.(*net.UDPAddr)
	if !ok {
		return nil
	}
	at := plain(u.AddrPort())
	if l := st.addrs[at]; l != nil {
		return l
	}
	f.mu.Lock()
	id := f.seen[at]
	f.mu.Unlock()
	return st.peers[id]
}

// Learn remembers who is at an address, if it is one of QUIC. What a connection
// has proved goes over what an address book says.
func (f *Links) Learn(id peer.ID, addr ma.Multiaddr, proved bool) {
	at, ok := udpAddr(addr)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.seen[at]; known && !proved {
		return
	}
	f.seen[at] = id
	for old := range f.seen {
		if len(f.seen) <= maxSeen {
			break
		}
		if old != at {
			delete(f.seen, old)
		}
	}
}

func udpAddr(a ma.Multiaddr) (netip.AddrPort, bool) {
	if _, err := a.ValueForProtocol(ma.P_QUIC_V1); err != nil {
		return netip.AddrPort{}, false
	}
	transport, _ := peer.SplitAddr(a)
	n, err := manet.ToNetAddr(transport.Decapsulate(quicOnly))
	u, ok := n.(*net.UDPAddr)
	if err != nil || !ok {
		return netip.AddrPort{}, false
	}
	return plain(u.AddrPort()), true
}

var quicOnly = ma.StringCast("/quic-v1")

// plain makes the two ways to write an IPv4 address one.
func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// shaper is a rate that many senders share in the order in which they come.
type shaper struct {
	rate int64 // bytes per second

	mu   sync.Mutex
	next time.Time // when all that was let through before is out
}

// reserve returns when n more bytes may leave; not ok is that it would be later
// than in most, and then nothing is reserved.
func (s *shaper) reserve(n int, most time.Duration) (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	at = s.next
	if at.Before(now) {
		at = now
	}
	if at.Sub(now) > most {
		return at, false
	}
	s.next = at.Add(time.Duration(float64(n) / float64(s.rate) * float64(time.Second)))
	return at, true
}

// sleep returns at the time, or when early is closed; false when an end is.
func sleep(at time.Time, early, end, otherEnd <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-end:
		return false
	case <-otherEnd:
		return false
	}
	return true
}
