package fault

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// socket is one end of a network that loses nothing.
type socket struct {
	net.PacketConn
	mu   sync.Mutex
	sent []sentPacket
	in   chan uint32
	end  chan struct{}
}

type sentPacket struct {
	number uint32
	to     string
	at     time.Time
}

func newSocket() *socket { return &socket{in: make(chan uint32), end: make(chan struct{})} }

var (
	addrA = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1001}
	addrB = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1002}
)

func (s *socket) WriteTo(p []byte, to net.Addr) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, sentPacket{binary.BigEndian.Uint32(p), to.String(), time.Now()})
	return len(p), nil
}

// ReadFrom gives packets that all come from addrA.
func (s *socket) ReadFrom(p []byte) (int, net.Addr, error) {
	select {
	case n := <-s.in:
		binary.BigEndian.PutUint32(p, n)
		return 4, addrA, nil
	case <-s.end:
		return 0, nil, net.ErrClosed
	}
}

func (s *socket) Close() error { close(s.end); return nil }

// numbers are the packets that have left for an address, in order.
func (s *socket) numbers(to net.Addr) (all []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.sent {
		if p.to == to.String() {
			all = append(all, p.number)
		}
	}
	return all
}

func (s *socket) times() (all []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.sent {
		all = append(all, p.at)
	}
	return all
}

// toA is a link to the peer at addrA.
func toA(l Link) []Link {
	l.Peer, l.Addrs = far, []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/udp/1001/quic-v1")}
	return []Link{l}
}

func onSocket(t *testing.T, test func(t *testing.T, f *Links, c *faultyPackets, s *socket)) {
	synctest.Test(t, func(t *testing.T) {
		f, s := NewLinks(nil), newSocket()
		c := f.packets(s)
		test(t, f, c, s)
		_ = c.Close()
		f.Close()
	})
}

func sendTo(t *testing.T, c *faultyPackets, n uint32, to net.Addr) {
	t.Helper()
	if k, err := c.WriteTo(binary.BigEndian.AppendUint32(nil, n), to); k != 4 || err != nil {
		t.Errorf("%d bytes, %v: whoever sends a packet is not told of its fate", k, err)
	}
}

// TestPacketsCut: nothing passes to and from the peer, all passes to others.
func TestPacketsCut(t *testing.T) {
	onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, s *socket) {
		var got []uint32
		read := beside(func() {
			p := make([]byte, 4)
			for {
				if _, _, err := c.ReadFrom(p); err != nil {
					return
				}
				got = append(got, binary.BigEndian.Uint32(p))
			}
		})
		for i, cut := range []bool{false, true, false} {
			f.Set(toA(Link{Cut: cut}), 0)
			sendTo(t, c, uint32(i), addrA)
			sendTo(t, c, uint32(i), addrB)
			s.in <- uint32(i)
			synctest.Wait()
		}
		_ = s.Close()
		s.end = make(chan struct{}) // Close comes again
		read()
		if a, b := s.numbers(addrA), s.numbers(addrB); !slices.Equal(a, []uint32{0, 2}) ||
			!slices.Equal(b, []uint32{0, 1, 2}) || !slices.Equal(got, []uint32{0, 2}) {
			t.Errorf("to the peer %v, to another %v, from the peer %v", a, b, got)
		}
		if n := testutil.ToFloat64(f.cut); n != 2 {
			t.Errorf("%v packets are counted", n)
		}
	})
}

// TestPacketsDelay: delayed packets arrive late and in order, and packets to other peers
// do not wait for them.
func TestPacketsDelay(t *testing.T) {
	onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, s *socket) {
		f.Set(toA(Link{Delay: 50 * time.Millisecond, Jitter: 30 * time.Millisecond}), 0)
		begun := time.Now()
		const n = 200
		var want []uint32
		for i := range uint32(n) {
			sendTo(t, c, i, addrA)
			want = append(want, i)
			time.Sleep(time.Millisecond)
		}
		sendTo(t, c, n, addrB)
		if !slices.Equal(s.numbers(addrB), []uint32{n}) {
			t.Error("a packet to another waits")
		}
		time.Sleep(time.Second)
		if got := s.numbers(addrA); !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
		if first := s.times()[0].Sub(begun); first < 50*time.Millisecond || first > 80*time.Millisecond {
			t.Errorf("the first after %s", first)
		}
		if testutil.ToFloat64(f.late) != n {
			t.Error("not counted")
		}
	})
}

// TestPacketsHeal: held packets are sent when the delay is removed, and dropped when the
// link is cut.
func TestPacketsHeal(t *testing.T) {
	for _, cut := range []bool{false, true} {
		onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, s *socket) {
			f.Set(toA(Link{Delay: 10 * time.Second}), 0)
			for i := range uint32(10) {
				sendTo(t, c, i, addrA)
			}
			synctest.Wait()
			if cut {
				f.Set(toA(Link{Cut: true}), 0)
			} else {
				f.Set(nil, 0)
			}
			synctest.Wait()
			got, want := len(s.numbers(addrA)), 10
			if cut {
				want = 0
			}
			if got != want {
				t.Errorf("cut %t: %d packets", cut, got)
			}
			time.Sleep(time.Minute)
			if len(s.numbers(addrA)) != want {
				t.Error("more came later")
			}
			sendTo(t, c, 11, addrB)
		})
	}
}

// TestPacketsBound: at most maxHeldPackets are held, and further packets are counted.
func TestPacketsBound(t *testing.T) {
	onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, s *socket) {
		f.Set(toA(Link{Delay: time.Second}), 0)
		for i := range uint32(maxHeldPackets + 100) {
			sendTo(t, c, i, addrA)
		}
		if n := testutil.ToFloat64(f.full); n != 100 {
			t.Errorf("%v packets too many are counted", n)
		}
		time.Sleep(2 * time.Second)
		if n := len(s.numbers(addrA)); n != maxHeldPackets {
			t.Errorf("%d came", n)
		}
	})
}

// TestPacketsRate: what passes the rate waits a while and is dropped then.
func TestPacketsRate(t *testing.T) {
	onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, s *socket) {
		f.Set(nil, 400) // 100 of these packets a second
		for i := range uint32(1000) {
			sendTo(t, c, i, addrB)
		}
		time.Sleep(10 * time.Second)
		if n := len(s.numbers(addrB)); n < 100 || n > 102 {
			t.Errorf("%d of 1,000 packets came", n)
		}
		if all := s.times(); all[len(all)-1].Sub(all[0]) < 900*time.Millisecond {
			t.Error("they came at once")
		}
	})
}

// TestPacketsLoss: about as many are lost as were to be.
func TestPacketsLoss(t *testing.T) {
	onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, s *socket) {
		f.Set(toA(Link{Loss: 0.3}), 0)
		for i := range uint32(10_000) {
			sendTo(t, c, i, addrA)
		}
		if n := len(s.numbers(addrA)); n < 6500 || n > 7500 || float64(n)+testutil.ToFloat64(f.lost) != 10_000 {
			t.Errorf("%d of 10,000 came, %v were lost", n, testutil.ToFloat64(f.lost))
		}
	})
}

// TestPacketsClose: Close ends the goroutine that sends held packets.
func TestPacketsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := NewLinks(nil), newSocket()
		c := f.packets(s)
		f.Set(toA(Link{Delay: 10 * time.Second}), 0)
		sendTo(t, c, 1, addrA)
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		begun := time.Now()
		f.Close()
		if time.Since(begun) != 0 {
			t.Error("Close waits for a packet")
		}
	})
}

// TestLearn: an address that a connection has proved replaces one of an address book, and
// the number of addresses is bounded.
func TestLearn(t *testing.T) {
	f := NewLinks(nil)
	f.Set([]Link{{Peer: far, Cut: true}}, 0)
	at := func() *Link { return f.to(f.state.Load(), addrA) }
	f.Learn("another", ma.StringCast("/ip4/127.0.0.1/udp/1001/quic-v1"), true)
	f.Learn(far, ma.StringCast("/ip4/127.0.0.1/udp/1001/quic-v1"), false)
	if at() != nil {
		t.Error("an address book went over a connection")
	}
	f.Learn(far, ma.StringCast("/ip4/127.0.0.1/tcp/1001"), true)
	if at() != nil {
		t.Error("a TCP address is one of UDP")
	}
	f.Learn(far, ma.StringCast("/ip4/127.0.0.1/udp/1001/quic-v1"), true)
	if at() == nil {
		t.Error("a connection proves nothing")
	}
	for port := range 3 * maxSeen {
		a, err := ma.NewMultiaddr("/ip4/127.0.0.1/udp/" + strconv.Itoa(port+1) + "/quic-v1")
		if err != nil {
			t.Fatal(err)
		}
		f.Learn(far, a, true)
	}
	if len(f.seen) > maxSeen {
		t.Errorf("%d addresses are remembered", len(f.seen))
	}
	f.Close()
}

// TestPacketsOfAChange: a packet that is due by faults that hold no more is
// judged anew, and neither held nor dropped by them.
func TestPacketsOfAChange(t *testing.T) {
	onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, s *socket) {
		f.Set(toA(Link{Delay: 10 * time.Second}), 0)
		then := f.state.Load()
		f.Set(toA(Link{Delay: time.Millisecond}), 0)
		if c.hold(then, []byte("late"), addrA, time.Now().Add(10*time.Second)) {
			t.Error("held by a delay that is gone")
		}
		sendTo(t, c, 1, addrA)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got := s.numbers(addrA); !slices.Equal(got, []uint32{1}) {
			t.Errorf("%v have left", got)
		}
	})
}

// TestPacketsRemembered: only addresses with a held packet are remembered, also while a
// packet is held at all times.
func TestPacketsRemembered(t *testing.T) {
	onSocket(t, func(t *testing.T, f *Links, c *faultyPackets, _ *socket) {
		f.Set(toA(Link{Delay: time.Minute}), 4) // a packet each second
		sendTo(t, c, 0, addrA)                  // held all the time
		for i := range 20 {
			sendTo(t, c, uint32(i), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2000 + i})
			time.Sleep(900 * time.Millisecond)
			synctest.Wait()
			c.mu.Lock()
			held, remembered := len(c.held), len(c.last)
			c.mu.Unlock()
			if remembered > held {
				t.Fatalf("%d packets are held, %d addresses remembered", held, remembered)
			}
		}
	})
}

// TestLearnForgetsOthers: when there are too many addresses, the latest one is kept and
// another is forgotten.
func TestLearnForgetsOthers(t *testing.T) {
	f := NewLinks(nil)
	defer f.Close()
	for i := range 4 * maxSeen {
		f.Learn(far, ma.StringCast("/ip4/127.0.0.1/udp/"+strconv.Itoa(1+i)+"/quic-v1"), true)
		if at := (&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1 + i}); f.seen[plain(at.AddrPort())] != far {
			t.Fatalf("forgot %s at once", at)
		}
	}
	if len(f.seen) != maxSeen {
		t.Errorf("%d addresses", len(f.seen))
	}
}
