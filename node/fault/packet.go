package fault

import (
	"container/heap"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	// maxHeldPackets bounds the packets that a socket holds up, like the queue of a router.
	// Further packets are dropped.
	maxHeldPackets = 4096
	// maxRateLag bounds how long a packet waits for the rate. A packet that would wait
	// longer is dropped.
	maxRateLag = time.Second
)

// faultyPackets is a packet socket that drops and holds up packets.
type faultyPackets struct {
	net.PacketConn
	f *Links

	mu      sync.Mutex                   // lock: metadata
	held    packets                      // packets that are held up, at most maxHeldPackets
	seq     uint64                       // of the latest packet in held
	last    map[netip.AddrPort]time.Time // when the last held packet to an address is due
	sending bool                         // send runs
	wake    chan struct{}                // one token: another packet is the first of held
	closed  chan struct{}                // closed by Close
	end     sync.Once
}

// packets wraps a packet socket.
func (f *Links) packets(c net.PacketConn) *faultyPackets {
	return &faultyPackets{
		PacketConn: c, f: f, last: map[netip.AddrPort]time.Time{},
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// packet is a packet that is held up.
type packet struct {
	due  time.Time
	seq  uint64
	data []byte
	to   net.Addr
}

// packets is a heap of packets, ordered by due and then by seq.
type packets []packet

func (p packets) Len() int      { return len(p) }
func (p packets) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p packets) Less(i, j int) bool {
	if p[i].due.Equal(p[j].due) {
		return p[i].seq < p[j].seq
	}
	return p[i].due.Before(p[j].due)
}
func (p *packets) Push(v any) { *p = append(*p, v.(packet)) }
func (p *packets) Pop() any {
	old := *p
	v := old[len(old)-1]
	old[len(old)-1] = packet{}
	*p = old[:len(old)-1]
	return v
}

// ReadFrom implements [net.PacketConn]. It drops the packets of a peer that is cut off.
func (c *faultyPackets) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(p)
		if err == nil {
			if l := c.f.to(c.f.state.Load(), from); l != nil && l.Cut {
				c.f.cut.Inc()
				continue
			}
		}
		return n, from, err
	}
}

// WriteTo implements [net.PacketConn]. For a packet that is dropped or held up it returns as
// if the packet was sent.
func (c *faultyPackets) WriteTo(p []byte, to net.Addr) (int, error) {
	for {
		st := c.f.state.Load()
		if st.clean() {
			return c.PacketConn.WriteTo(p, to)
		}
		due, pass := c.judge(st, len(p), to)
		switch {
		case !pass:
			return len(p), nil
		case !due.After(time.Now()):
			return c.PacketConn.WriteTo(p, to)
		case c.hold(st, p, to, due):
			return len(p), nil
		}
	}
}

// judge returns when a packet of n bytes to an address is due under the faults st. pass is
// false if the packet is dropped.
func (c *faultyPackets) judge(st *links, n int, to net.Addr) (due time.Time, pass bool) {
	l := c.f.to(st, to)
	now := time.Now()
	due = now
	switch {
	case l == nil:
	case l.Cut:
		c.f.cut.Inc()
		return due, false
	case l.Loss > 0 && rand.Float64() < l.Loss:
		c.f.lost.Inc()
		return due, false
	default:
		due = now.Add(l.Delay + upTo(l.Jitter))
	}
	if st.rate != nil {
		at, ok := st.rate.reserve(n, maxRateLag)
		if !ok {
			c.f.full.Inc()
			return due, false
		}
		due = due.Add(at.Sub(now))
	}
	return due, true
}

// upTo returns a random time below d, or 0 if d is not positive.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// hold keeps a packet until it is due and the earlier packets to its address have left. It
// drops the packet if maxHeldPackets are held. It returns false, and does nothing, if st are
// no longer the current faults: then due is out of date. hold checks that under the lock, so
// no packet with an out-of-date due enters held after send has seen the change.
func (c *faultyPackets) hold(st *links, p []byte, to net.Addr, due time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.f.state.Load() != st {
		return false
	}
	if len(c.held) >= maxHeldPackets {
		c.f.full.Inc()
		return true
	}
	c.f.late.Inc()
	if u, ok := to.(*net.UDPAddr); ok {
		at := u.AddrPort()
		if due.Before(c.last[at]) {
			due = c.last[at]
		}
		c.last[at] = due
	}
	c.seq++
	heap.Push(&c.held, packet{due: due, seq: c.seq, data: append([]byte(nil), p...), to: to})
	if c.held[0].seq == c.seq {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	if !c.sending {
		c.sending = c.f.run(func() { c.send(st) })
	}
	return true
}

// send sends each held packet when it is due, and returns when none is held. current are the
// faults under which the first packet was held. When the faults change, send releases all
// held packets.
func (c *faultyPackets) send(current *links) {
	for {
		c.mu.Lock()
		if st := c.f.state.Load(); st != current {
			c.release(st)
			current = st
		}
		if len(c.held) == 0 {
			c.sending = false
			c.mu.Unlock()
			return
		}
		due := c.held[0].due
		if time.Now().Before(due) {
			c.mu.Unlock()
			if !c.pause(due, current.changed) {
				c.drop()
				return
			}
			continue
		}
		next := c.pop()
		c.mu.Unlock()
		if _, err := c.PacketConn.WriteTo(next.data, next.to); err != nil {
			c.f.lost.Inc() // WriteTo has returned, so the packet counts as lost
		}
	}
}

// pop removes the first packet of held and returns it. The caller holds mu.
func (c *faultyPackets) pop() packet {
	next := heap.Pop(&c.held).(packet)
	if u, ok := next.to.(*net.UDPAddr); ok && !c.last[u.AddrPort()].After(next.due) {
		delete(c.last, u.AddrPort()) // so that last has no more entries than held
	}
	return next
}

// pause waits until due, or until another packet is the first or the faults change. It
// returns false if the socket or Links was closed.
func (c *faultyPackets) pause(due time.Time, changed <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.wake:
	case <-changed:
	case <-c.closed:
		return false
	case <-c.f.done:
		return false
	}
	return true
}

// release makes all held packets due, and drops those to peers that are cut off now. The
// caller holds mu.
func (c *faultyPackets) release(st *links) {
	kept := c.held[:0]
	for _, p := range c.held {
		if l := c.f.to(st, p.to); l != nil && l.Cut {
			c.f.cut.Inc()
			continue
		}
		p.due = time.Time{}
		kept = append(kept, p)
	}
	clear(c.held[len(kept):])
	c.held = kept
	clear(c.last)
	heap.Init(&c.held)
}

// drop drops all held packets and notes the end of send.
func (c *faultyPackets) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.sending = nil, false
	clear(c.last)
}

// Close implements [net.PacketConn].
func (c *faultyPackets) Close() error {
	c.end.Do(func() { close(c.closed) })
	return c.PacketConn.Close()
}

// faultySocket is the UDP socket on which QUIC listens and from which it dials. quic-go sets
// the sizes of its buffers and forbids IP fragments on it.
type faultySocket struct {
	*faultyPackets
	udp   *net.UDPConn
	batch *ipv4.PacketConn // the same socket, for many packets at a time
}

// SetReadBuffer calls the method of [net.UDPConn].
func (c faultySocket) SetReadBuffer(n int) error { return c.udp.SetReadBuffer(n) }

// SetWriteBuffer calls the method of [net.UDPConn].
func (c faultySocket) SetWriteBuffer(n int) error { return c.udp.SetWriteBuffer(n) }

// SyscallConn calls the method of [net.UDPConn].
func (c faultySocket) SyscallConn() (syscall.RawConn, error) { return c.udp.SyscallConn() }

// ListenUDP opens a UDP socket with the faults of f. The caller closes it.
func (f *Links) ListenUDP(network string, at *net.UDPAddr) (net.PacketConn, error) {
	c, err := net.ListenUDP(network, at)
	if err != nil {
		return nil, err
	}
	return faultySocket{f.packets(c), c, ipv4.NewPacketConn(c)}, nil
}
