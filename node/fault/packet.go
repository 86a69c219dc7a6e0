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
	// maxHeldPackets is how many packets a socket holds up, as much as a router's
	// long queue; further ones are dropped.
	maxHeldPackets = 4096
	// maxRateLag is how long a packet may wait for the rate; one that would wait
	// longer is dropped.
	maxRateLag = time.Second
)

// faultyPackets is a socket that packets get lost in.
type faultyPackets struct {
	net.PacketConn
	f *Links

	mu      sync.Mutex
	held    packets
	seq     uint64
	last    map[netip.AddrPort]time.Time // when the latest packet that is held for an address leaves
	sending bool                         // send runs
	wake    chan struct{}                // one token: the first of held is another one
	closed  chan struct{}
	end     sync.Once
}

func (f *Links) packets(c net.PacketConn) *faultyPackets {
	return &faultyPackets{
		PacketConn: c, f: f, last: map[netip.AddrPort]time.Time{},
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// packet is one that is held up.
type packet struct {
	due  time.Time
	seq  uint64
	data []byte
	to   net.Addr
}

// packets is a heap by due.
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

// ReadFrom implements [net.PacketConn].
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

// WriteTo implements [net.PacketConn]. A packet that is dropped was sent, for all
// that its sender knows.
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

// judge is when n bytes to an address may leave as things are; not pass is that
// they are dropped.
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

// upTo is a random time below d.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// hold keeps a packet until due, and until those before it have left, or drops
// it when too many are held. False: st, by which it is due, does not hold any
// more. As that is asked under the lock, send lets go of all that was held
// before a change when it sees the change.
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

// send sends what is held when it is due, and ends when nothing is. The first of
// it is due by then.
func (c *faultyPackets) send(then *links) {
	for {
		c.mu.Lock()
		if st := c.f.state.Load(); st != then {
			c.release(st)
			then = st
		}
		if len(c.held) == 0 {
			c.sending = false
			c.mu.Unlock()
			return
		}
		due := c.held[0].due
		if time.Now().Before(due) {
			c.mu.Unlock()
			if !c.pause(due, then.changed) {
				c.drop()
				return
			}
			continue
		}
		next := c.pop()
		c.mu.Unlock()
		if _, err := c.PacketConn.WriteTo(next.data, next.to); err != nil {
			c.f.lost.Inc() // as a packet is lost: whoever sent it is not there to be told
		}
	}
}

// pop takes the first of held. mu is held.
func (c *faultyPackets) pop() packet {
	next := heap.Pop(&c.held).(packet)
	if u, ok := next.to.(*net.UDPAddr); ok && !c.last[u.AddrPort()].After(next.due) {
		delete(c.last, u.AddrPort()) // so that there are no more of them than of held
	}
	return next
}

// pause waits for the time, another first packet or other faults; false: the
// socket is closed.
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

// release makes all that is held due, but for what is cut off now. mu is held.
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

// drop forgets what is held: send is over.
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

// faultySocket is the UDP socket that QUIC listens on and dials from. quic-go
// asks it for large buffers and forbids fragments on it.
type faultySocket struct {
	*faultyPackets
	udp   *net.UDPConn
	batch *ipv4.PacketConn // the same, for many packets at a time
}

// SetReadBuffer is of [net.UDPConn].
func (c faultySocket) SetReadBuffer(n int) error { return c.udp.SetReadBuffer(n) }

// SetWriteBuffer is of [net.UDPConn].
func (c faultySocket) SetWriteBuffer(n int) error { return c.udp.SetWriteBuffer(n) }

// SyscallConn is of [net.UDPConn].
func (c faultySocket) SyscallConn() (syscall.RawConn, error) { return c.udp.SyscallConn() }

// ListenUDP opens a socket that packets get lost in.
func (f *Links) ListenUDP(network string, at *net.UDPAddr) (net.PacketConn, error) {
	c, err := net.ListenUDP(network, at)
	if err != nil {
		return nil, err
	}
	return faultySocket{f.packets(c), c, ipv4.NewPacketConn(c)}, nil
}
