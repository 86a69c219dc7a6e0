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

	"allium/internal/env"
	"allium/internal/latch"
)

// Links injects faults into the links of one host of a testnet. At any time it can cut the
// link to a peer, delay or lose what the host sends there, and bound the rate at which the
// host sends to all. A change applies to existing connections and to new ones.
//
// Over TCP, Links holds up the bytes of a connection below TLS or Noise. Over QUIC it drops
// and holds up packets by address, which it learns from dials and connections. While there
// is a fault, QUIC sends without segmentation offload and ECN; outside Linux it always does.
// A cut gives no error: a dial to or from a peer that is cut off ends by its timeout.
//
// Invariants: delayed data is bounded, in bytes for each TCP connection and in packets for each socket. The bytes of a
// TCP connection stay in order. Close ends every wait.
type Links struct {
	state atomic.Pointer[links] // replaced as a whole
	packs *prometheus.CounterVec
	cut   prometheus.Counter // of packs, like the next three
	lost  prometheus.Counter
	full  prometheus.Counter
	late  prometheus.Counter

	mu   sync.Mutex                 // lock: leaf
	seen map[netip.AddrPort]peer.ID // the peers at UDP addresses, at most maxSeen

	sending latch.Latch // goroutines that send what was held up
	closing sync.Once
	done    chan struct{} // closed by Close
}

// maxSeen bounds the remembered addresses. Beyond it, arbitrary ones are forgotten.
const maxSeen = 4096

// Link describes the faults between the host and one peer. Delay, jitter and loss apply to
// what the host sends, a cut to both directions.
type Link struct {
	Peer   peer.ID
	Addrs  []ma.Multiaddr // where the peer listens; the host finds further addresses itself
	Cut    bool           // nothing passes, either way
	Delay  time.Duration  // one way
	Jitter time.Duration  // random addition to Delay, at most this
	Loss   float64        // share of packets lost, 0 to 1; over TCP a lost one is late instead
}

// links is one set of faults. It never changes, except that changed is closed.
type links struct {
	peers   map[peer.ID]*Link
	addrs   map[netip.AddrPort]*Link
	rate    *shaper       // nil: no bound
	changed chan struct{} // closed when another set replaces this one
}

// clean reports whether there is no fault at all.
func (l *links) clean() bool { return len(l.peers) == 0 && l.rate == nil }

// NewLinks returns Links without a fault. A nil reg leaves the metrics unregistered.
func NewLinks(reg prometheus.Registerer) *Links {
	f := &Links{
		seen: map[netip.AddrPort]peer.ID{}, done: make(chan struct{}),
		packs: env.CounterVec("fault_packets_total",
			"Packets, and pieces of TCP streams, that a node of a testnet did something to on purpose: cut, loss "+
				"(dropped; over TCP late by a retransmission), full (dropped, too many were held up), delay (held up).",
			"kind"),
	}
	f.cut, f.lost = f.packs.WithLabelValues("cut"), f.packs.WithLabelValues("loss")
	f.full, f.late = f.packs.WithLabelValues("full"), f.packs.WithLabelValues("delay")
	env.MustRegister(reg, f.packs)
	f.state.Store(&links{changed: make(chan struct{})})
	return f
}

// Set replaces all faults. rate bounds all that the host sends, in bytes per second; 0 is
// no bound. Bytes and packets held up by a fault that is gone are sent at once.
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

// Close ends the goroutines that still send for the host's connections, and waits for them.
// The caller closes the host first.
func (f *Links) Close() {
	f.closing.Do(func() { close(f.done) })
	f.sending.CloseAndWait()
}

// run runs send in a goroutine that Close waits for. After Close it returns false.
func (f *Links) run(send func()) bool { return f.sending.Go(send) }

// Cut reports whether a peer is cut off.
func (f *Links) Cut(id peer.ID) bool {
	l := f.state.Load().peers[id]
	return l != nil && l.Cut
}

// to returns the faults of the link to a UDP address, nil if it has none.
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

// Learn remembers which peer is at a QUIC address and ignores other addresses. An entry
// that exists changes only if proved is set.
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

// udpAddr returns the UDP address of a QUIC multiaddr, and false for any other.
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

// plain returns a with an IPv4-mapped IPv6 address turned into IPv4.
func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// shaper bounds the rate of many senders. It serves them in the order of their calls.
type shaper struct {
	rate int64 // bytes per second

	mu   sync.Mutex // lock: leaf
	next time.Time  // when all reserved bytes have left
}

// reserve returns when n more bytes may leave. If that is more than most away, it reserves
// nothing and returns false.
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

// sleep waits until the time at, or until early is signaled, and returns true. It returns
// false as soon as end or otherEnd is closed.
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
