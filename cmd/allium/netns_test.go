package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
)

// netns is a small Internet of network namespaces, joined by a bridge. What it sends stays on this machine.
type netns struct {
	*testing.T
	dir   string
	made  int
	seeds []string // their addresses

	portMap bool     // nodes ask their router for ports
	more    []string // of the environment of the next nodes
}

// newNetns makes a bridge. It skips the test where namespaces are not possible.
func newNetns(t *testing.T) *netns {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("network namespaces are Linux's")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			testkit.Missing(t, tool+" is not installed (packages iproute2 and nftables)")
		}
	}
	n := &netns{T: t, dir: t.TempDir()}
	if out, err := exec.Command("ip", "netns", "add", n.ns("net")).CombinedOutput(); err != nil {
		t.Skipf("no network namespace can be made here, which takes root: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.ns("net")).Run() })
	n.ip("net", "link", "add", "br0", "type", "bridge")
	n.ip("net", "link", "set", "br0", "up")
	for _, net := range []string{"20.0.0.254/8", "21.0.0.254/8", "30.0.0.254/8", "31.0.0.254/8"} {
		n.ip("net", "addr", "add", net, "dev", "br0")
	}
	n.run("ip", "netns", "exec", n.ns("net"), "sysctl", "-qw", "net.ipv4.ip_forward=1")
	return n
}

// ns is the name of a namespace on this machine.
func (n *netns) ns(name string) string { return fmt.Sprintf("allium-%d-%s", os.Getpid(), name) }

func (n *netns) run(args ...string) {
	n.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		n.Fatalf("%q: %v: %s", args, err, out)
	}
}

// ip runs ip in a namespace.
func (n *netns) ip(name string, args ...string) {
	n.Helper()
	n.run(append([]string{"ip", "-n", n.ns(name)}, args...)...)
}

// host makes a namespace that is plugged in another one, with an address there. An IPv4 address has a gateway.
func (n *netns) host(name, in, addr, gateway string) {
	n.Helper()
	n.run("ip", "netns", "add", n.ns(name))
	n.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.ns(name)).Run() })
	n.made++
	plug := fmt.Sprintf("plug%d", n.made)
	n.ip(in, "link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", n.ns(name))
	if in == "net" {
		n.ip(in, "link", "set", plug, "master", "br0", "up")
	} else {
		n.ip(in, "addr", "add", gateway+"/24", "dev", plug)
		n.ip(in, "link", "set", plug, "up")
	}
	n.ip(name, "link", "set", "lo", "up")
	how := []string{"addr", "add", addr, "dev", "eth0"}
	if strings.Contains(addr, ":") {
		how = append(how, "nodad")
	}
	n.ip(name, how...)
	n.ip(name, "link", "set", "eth0", "up")
	if gateway != "" {
		n.ip(name, "route", "add", "default", "via", gateway)
	}
}

// behind makes a host behind a router that lets in answers alone. masquerade is how it maps ports; more are
// rules for what it forwards.
func (n *netns) behind(name, public, private, masquerade, more string) {
	n.Helper()
	router := name + "-router"
	first, _, _ := strings.Cut(public, ".")
	n.host(router, "net", public+"/8", first+".0.0.254")
	n.run("ip", "netns", "exec", n.ns(router), "sysctl", "-qw", "net.ipv4.ip_forward=1")
	rules := exec.Command("ip", "netns", "exec", n.ns(router), "nft", "-f", "-")
	rules.Stdin = strings.NewReader(`
		table ip nat { chain post {
			type nat hook postrouting priority 100; oifname "eth0" masquerade ` + masquerade + ` ;
		} ; }
		table ip filter {
			chain forwarded { type filter hook forward priority 0; ` + more + ` iifname "eth0" ct state new drop; }
			chain toward { type filter hook input priority 0; iifname "eth0" ct state new drop; }
		}`)
	if out, err := rules.CombinedOutput(); err != nil {
		n.Skipf("the kernel does not translate addresses here: %v: %s", err, out)
	}
	n.host(name, router, private+".2/24", private+".1")
}

// node starts a node in a namespace and returns its addresses.
func (n *netns) node(name, profile string, listen ...string) []string {
	n.Helper()
	args := []string{"netns", "exec", n.ns(name), "allium", "--home", n.home(name), "run", "--profile", profile}
	for _, l := range listen {
		args = append(args, "--listen", l)
	}
	for _, s := range n.seeds {
		args = append(args, "--bootstrap", s)
	}
	cmd := exec.Command("ip", args...)
	cmd.Env = append(os.Environ(), "ALLIUM_LISTEN__MDNS=false", fmt.Sprint("ALLIUM_LISTEN__PORT_MAP=", n.portMap),
		"ALLIUM_GATEWAY__LISTEN=127.0.0.1:0")
	cmd.Env = append(cmd.Env, n.more...)
	awaitReady(n.T, cmd)
	var id api.ID
	n.decode(&id, "--home", n.home(name), "--json", "id")
	return id.Addrs
}

func (n *netns) home(name string) string { return filepath.Join(n.dir, name) }

// seed starts a seed at a public address.
func (n *netns) seed(name, addr, gateway string, listen ...string) {
	n.Helper()
	n.host(name, "net", addr, gateway)
	for _, a := range n.node(name, "seed", listen...) {
		if ip, _, _ := strings.Cut(addr, "/"); strings.Contains(a, "/"+ip+"/") {
			n.seeds = append(n.seeds, a)
		}
	}
}

// decode decodes what a command prints.
func (n *netns) decode(v any, args ...string) {
	n.Helper()
	out, err := exec.Command("allium", args...).Output()
	if err != nil {
		n.Fatalf("%q: %v", args, err)
	}
	if err := json.Unmarshal(out, v); err != nil {
		n.Fatalf("%q: %v: %s", args, err, out)
	}
}

// share shares a file of random bytes on a node and returns its ticket.
func (n *netns) share(name string, size int) (ticket string) {
	n.Helper()
	file := filepath.Join(n.dir, fmt.Sprintf("%s-%d", name, size))
	if err := os.WriteFile(file, bytes.Repeat([]byte(file), size/len(file)), 0o600); err != nil {
		n.Fatal(err)
	}
	var s api.Shared
	n.decode(&s, "--home", n.home(name), "--json", "share", file)
	return s.Ticket
}

// get fetches by a ticket and returns the path that the bytes took, or the error message.
func (n *netns) get(name, ticket string) (path, failure string) {
	n.Helper()
	return n.fetched(exec.Command("allium", "--home", n.home(name), "--json", "get", ticket, "--force", "-o",
		filepath.Join(n.dir, name+"-out")))
}

// cold is get in a namespace without a node and with nothing configured.
func (n *netns) cold(name, ticket string) (path, failure string) {
	n.Helper()
	cmd := exec.Command("ip", "netns", "exec", n.ns(name), "allium", "--home", n.home("none"), "--json", "get", ticket,
		"--force", "-o", filepath.Join(n.dir, name+"-out"))
	cmd.Env = append(os.Environ(), "ALLIUM_LISTEN__MDNS=false")
	return n.fetched(cmd)
}

// fetched runs a get.
func (n *netns) fetched(cmd *exec.Cmd) (path, failure string) {
	n.Helper()
	out, err := cmd.Output()
	if err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			n.Fatal(err)
		}
		return "", string(exit.Stderr)
	}
	var f struct{ Path string }
	if err := json.Unmarshal(out, &f); err != nil {
		n.Fatal(err)
	}
	return f.Path, ""
}

// TestTCPBehindRouters: over TCP, from one router to another. Small files always arrive, also where no node runs.
func TestTCPBehindRouters(t *testing.T) {
	const tcp = "/ip4/0.0.0.0/tcp/4901"
	for name, c := range map[string]struct {
		masquerade string
		direct     bool
	}{"port-restricted": {"", true}, "symmetric": {"fully-random", false}} {
		t.Run(name, func(t *testing.T) {
			n := newNetns(t)
			n.seed("s1", "20.0.0.1/8", "20.0.0.254", tcp)
			n.seed("s2", "21.0.0.1/8", "21.0.0.254", tcp)
			n.behind("a", "30.0.0.1", "192.168.1", c.masquerade, "")
			n.behind("b", "31.0.0.1", "192.168.2", c.masquerade, "")
			n.node("a", "desktop", tcp)
			n.node("b", "desktop", tcp)
			n.behind("c", "30.0.0.2", "192.168.3", c.masquerade, "")
			small := n.share("b", 100_000)
			if path, failure := n.get("a", small); path == "" {
				t.Fatal(failure)
			}
			if path, failure := n.cold("c", small); path == "" {
				t.Errorf("without a node: %s", failure)
			}
			if c.direct {
				testkit.Eventually(t, "a direct connection", func() bool {
					path, _ := n.get("a", small)
					return path == "direct tcp"
				})
				return
			}
			large := n.share("b", 20<<20)
			for range 3 { // also when the node has given the peer up for a while
				_, failure := n.get("a", large)
				if !strings.Contains(failure, "forward a port") || !strings.Contains(failure, "it resumes") {
					t.Errorf("a large file through a relay: %q", failure)
				}
			}
		})
	}
}

// TestWithoutUDP: in a network that drops UDP nodes fetch over TCP.
func TestWithoutUDP(t *testing.T) {
	n := newNetns(t)
	n.host("b", "net", "20.0.0.1/8", "20.0.0.254")
	n.seeds = n.node("b", "server")
	n.behind("a", "30.0.0.1", "192.168.1", "", "meta l4proto udp drop;")
	n.node("a", "desktop")
	if path, failure := n.get("a", n.share("b", 300_000)); path != "direct tcp" {
		t.Errorf("the path is %q %s", path, failure)
	}
}

// TestIPv6Alone: nodes without IPv4 reach each other.
func TestIPv6Alone(t *testing.T) {
	n := newNetns(t)
	n.seed("s1", "2a00:1::1/16", "")
	n.seed("s2", "2a00:2::1/16", "")
	n.host("a", "net", "2a00:3::1/16", "")
	n.host("b", "net", "2a00:4::1/16", "")
	n.node("a", "server")
	n.node("b", "server")
	if path, failure := n.get("a", n.share("b", 300_000)); path != "direct quic" {
		t.Errorf("the path is %q %s", path, failure)
	}
	testkit.Eventually(t, "a confirmed IPv6 address", func() bool {
		var r api.Reach
		n.decode(&r, "--home", n.home("b"), "--json", "doctor", "reach")
		for _, a := range r.Addrs {
			if a.State == api.ReachConfirmed && len(a.By) == 0 {
				t.Errorf("%s is confirmed by nobody", a.Addr)
			}
		}
		return r.From == api.ReachAnyone
	})
}
