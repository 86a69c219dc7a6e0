package conns

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"allium/internal/limits"

	"pgregory.net/rapid"
)

// TestWaiting compares the order with a plain model.
func TestWaiting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newEvictQueue()
		var fresh, idle []*Conn // the oldest first
		running := map[*Conn]int{}
		without := func(l []*Conn, c *Conn) []*Conn {
			for i, o := range l {
				if o == c {
					return append(l[:i:i], l[i+1:]...)
				}
			}
			return l
		}
		waits := func() *Conn {
			all := append(append([]*Conn{}, fresh...), idle...)
			if len(all) == 0 {
				return nil
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
		}
		var busy []*Conn
		t.Repeat(map[string]func(*rapid.T){
			"accept": func(*rapid.T) {
				c := &Conn{place: place{queue: w}}
				w.add(c)
				fresh = append(fresh, c)
			},
			"begin": func(*rapid.T) {
				if c := waits(); c != nil {
					if !c.Begin() {
						t.Fatal("it is not gone")
					}
					fresh, idle = without(fresh, c), without(idle, c)
					running[c]++
					busy = append(busy, c)
				}
			},
			"another stream": func(*rapid.T) {
				if len(busy) > 0 {
					busy[0].Begin()
					running[busy[0]]++
				}
			},
			"end": func(*rapid.T) {
				if len(busy) > 0 {
					c := busy[0]
					c.End()
					if running[c]--; running[c] == 0 {
						delete(running, c)
						busy = busy[1:]
						idle = append(idle, c)
					}
				}
			},
			"close": func(*rapid.T) {
				if c := waits(); c != nil {
					w.remove(c)
					fresh, idle = without(fresh, c), without(idle, c)
				}
			},
			"evict": func(*rapid.T) {
				c, reason := w.evictIdle(netip.Prefix{})
				switch {
				case len(fresh) > 0:
					if c != fresh[0] || reason != "slow_evicted" {
						t.Fatal("not the oldest without a header")
					}
					fresh = fresh[1:]
				case len(idle) > 0:
					if c != idle[0] || reason != "idle_evicted" {
						t.Fatal("not the one that is idle longest")
					}
					idle = idle[1:]
				case c != nil:
					t.Fatal("one in a request made room")
				}
				if c != nil && c.Begin() {
					t.Fatal("who made room begins a request")
				}
			},
		})
	})
}

// TestWhoHasMostMakesRoom: a client with one connection takes the place of one
// with many, and one with many takes nobody's but its own.
func TestWhoHasMostMakesRoom(t *testing.T) {
	t.Parallel()
	w := newEvictQueue()
	client := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32) }
	add := func(i int) *Conn {
		c := &Conn{place: place{queue: w, group: client(i)}}
		w.add(c)
		return c
	}
	shy := add(1)
	greedy := []*Conn{add(2), add(2), add(2)}
	if c, _ := w.evictIdle(client(2)); c != greedy[0] {
		t.Error("who has most did not take its own oldest")
	}
	if c, _ := w.evictIdle(client(3)); c != greedy[1] {
		t.Error("a newcomer did not take the place of who has most")
	}
	if c, _ := w.evictIdle(client(3)); c != nil {
		t.Error("it took the last of somebody")
	}
	if !shy.Begin() {
		t.Error("who has one made room")
	}
	shy.End()
	w.remove(shy)
	w.remove(greedy[2])
	w.remove(greedy[0]) // as its connection is closed
	if len(w.perClient) != 0 {
		t.Errorf("%v are left", w.perClient)
	}
}

// TestFewAreLeaving: connections that were told to make room and are not closed
// yet are bounded, and half of the bound is for clients with few connections;
// beyond it nobody makes room, until one of them is closed.
func TestFewAreLeaving(t *testing.T) {
	t.Parallel()
	w := newEvictQueue()
	greedy := netip.MustParsePrefix("192.0.2.1/32")
	shy := netip.MustParsePrefix("192.0.2.2/32")
	for range 2 * maxEvicting {
		w.add(&Conn{place: place{queue: w, group: greedy}})
	}
	var left []*Conn
	leave := func(client netip.Prefix) (n int) {
		for c, _ := w.evictIdle(client); c != nil; c, _ = w.evictIdle(client) {
			left = append(left, c)
			n++
		}
		return n
	}
	if n := leave(greedy); n != maxEvicting/2 {
		t.Errorf("%d are leaving for who has most, want half of %d", n, maxEvicting)
	}
	if n := leave(shy); n != maxEvicting/2 {
		t.Errorf("%d are leaving for who has none, want the other half of %d", n, maxEvicting)
	}
	w.remove(left[0])
	w.remove(left[0]) // as net/http closes twice
	if n := leave(greedy); n != 0 {
		t.Errorf("%d are leaving for who has most while less than half is free", n)
	}
	if n := leave(shy); n != 1 {
		t.Errorf("%d are leaving after one was closed", n)
	}
}

// TestAcceptLeavesClosingToTheReader: what makes room for the next is closed by
// whoever reads it; until then it is counted, and Accept does not wait.
func TestAcceptLeavesClosingToTheReader(t *testing.T) {
	t.Parallel()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var registry *limits.Registry
	l := Listen(raw, Config{
		Limits: Limits{All: registry.NewGate(limits.Spec{Name: "gateway.conns"}, 1, 0)},
		Evicts: true, Stall: time.Minute, HalfClosed: NewHalfClosed(),
		Exempt: func(netip.Addr) bool { return false }, OnReject: func(string) {},
	})
	accept := func() *Conn {
		peer, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { peer.Close() })
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*Conn)
	}
	leaving := func() int {
		l.evictable.mu.Lock()
		defer l.evictable.mu.Unlock()
		return l.evictable.evicting
	}
	first := accept()
	accept()
	if got := leaving(); got != 1 {
		t.Errorf("%d are leaving, want the first", got)
	}
	if k, err := first.Read(make([]byte, 1)); k != 0 || !errors.Is(err, errEvicted) {
		t.Errorf("the reader got %d bytes, %v", k, err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("the reader cannot close it: %v", err)
	}
	if got := leaving(); got != 0 {
		t.Errorf("%d are leaving, want none", got)
	}
}
