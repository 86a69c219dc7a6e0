package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"allium/gateway/api"
	"allium/internal/testkit"
)

// listenIn opens a UDP socket in a namespace.
func (n *netns) listenIn(name, addr string) net.PacketConn {
	n.Helper()
	space, err := os.Open("/run/netns/" + n.ns(name))
	if err != nil {
		n.Skipf("the namespaces are elsewhere: %v", err)
	}
	defer space.Close()
	type opened struct {
		conn net.PacketConn
		err  error
	}
	done := make(chan opened)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- opened{err: err}
			return
		}
		conn, err := net.ListenPacket("udp4", addr)
		done <- opened{conn, err}
	}()
	got := <-done
	if got.err != nil {
		n.Fatal(got.err)
	}
	return got.conn
}

// maps makes the router of a host map ports on request, by NAT-PMP (RFC 6886), until the test ends.
func (n *netns) maps(name, public, private string) {
	n.Helper()
	conn := n.listenIn(name+"-router", private+".1:5351")
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 64)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := n.mapped(name, public, private, buf[:size]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	})
	n.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
}

// mapped answers one request. The external port is the internal one.
func (n *netns) mapped(name, public, private string, request []byte) []byte {
	if len(request) < 2 || request[0] != 0 {
		return nil
	}
	answer := []byte{0, 128 + request[1], 0, 0, 0, 0, 0, 1} // version, operation, result, epoch
	if request[1] == 0 {
		return append(answer, netip.MustParseAddr(public).AsSlice()...)
	}
	if len(request) < 12 {
		return nil
	}
	port, life := binary.BigEndian.Uint16(request[4:]), request[8:12]
	if binary.BigEndian.Uint32(life) > 0 {
		kind := map[byte]string{1: "udp", 2: "tcp"}[request[1]]
		rules := exec.Command("ip", "netns", "exec", n.ns(name+"-router"), "nft", "-f", "-")
		rules.Stdin = strings.NewReader(fmt.Sprintf(`
			add chain ip nat pre { type nat hook prerouting priority -100; }
			add rule ip nat pre iifname "eth0" %s dport %d dnat to %s.2`, kind, port, private))
		if out, err := rules.CombinedOutput(); err != nil {
			n.Errorf("map %s %d: %v: %s", kind, port, err, out)
		}
	}
	answer = binary.BigEndian.AppendUint16(answer, port)
	answer = binary.BigEndian.AppendUint16(answer, port)
	return append(answer, life...)
}

// TestPortMapping: a node behind a router asks it for ports, announces the router's address when peers have
// confirmed it, and is dialled there.
func TestPortMapping(t *testing.T) {
	n := newNetns(t)
	n.seed("s1", "20.0.0.1/8", "20.0.0.254")
	n.seed("s2", "21.0.0.1/8", "21.0.0.254")
	n.behind("a", "30.0.0.1", "192.168.1", "", "ct status dnat accept;")
	n.maps("a", "30.0.0.1", "192.168.1")
	n.portMap = true
	n.node("a", "desktop")
	testkit.Eventually(t, "a confirmed address of the router", func() bool {
		var r api.Reach
		n.decode(&r, "--home", n.home("a"), "--json", "doctor", "reach")
		for _, a := range r.Addrs {
			if strings.HasPrefix(a.Addr, "/ip4/30.0.0.1/") && a.State == api.ReachConfirmed {
				return r.From == api.ReachAnyone
			}
		}
		return false
	})
	n.host("b", "net", "31.0.0.1/8", "31.0.0.254")
	if path, failure := n.cold("b", n.share("a", 300_000)); !strings.HasPrefix(path, "direct ") {
		t.Errorf("the path is %q %s", path, failure)
	}
}
