package doctor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
	"allium/node/doctor"
	homedir "allium/node/home"
	"allium/node/p2p"
	"allium/protocols/status"
	"allium/store"
	"allium/store/bucket/s3"
)

// fault is something that is wrong in a world.
type fault struct {
	name    string
	check   string // that must find it
	worst   doctor.Severity
	stopped bool // no node runs
	plant   func(w *world)
}

// unreachable makes the addresses that contain part unreachable.
func unreachable(w *world, part string) {
	for i, a := range w.node.reach.Addrs {
		if strings.Contains(a.Addr, part) {
			w.node.reach.Addrs[i].State = api.ReachUnreachable
		}
	}
}

// behindRouter makes the node one at home that nobody reaches directly.
func behindRouter(w *world) {
	w.interfaces = []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24")}
	w.node.reach.From = api.ReachRelay
	w.node.reach.Addrs = []api.ReachAddr{{
		Addr: "/ip4/192.168.1.7/tcp/4901", Scope: api.ReachLAN, Via: "interface", State: api.ReachUnchecked,
	}}
}

// dialError is how a dial fails.
func dialError(err error) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: err}
	}
}

// faults are those that a doctor must name.
var faults = []fault{
	// the home directory
	{"the identity is lost", "identity", doctor.Error, true, func(w *world) {
		w.must(os.Remove(filepath.Join(w.home, homedir.KeyFile)))
		w.must(os.MkdirAll(filepath.Join(w.home, homedir.RecordsDir), 0o700))
	}},
	{"the identity is cut", "identity", doctor.Error, true, func(w *world) {
		w.must(os.Truncate(filepath.Join(w.home, homedir.KeyFile), 40))
	}},
	{"others can read the identity", "permissions", doctor.Error, false, func(w *world) {
		w.must(os.Chmod(filepath.Join(w.home, homedir.KeyFile), 0o644))
	}},
	{"others can write into the home", "permissions", doctor.Error, false, func(w *world) {
		w.must(os.Chmod(w.home, 0o777))
	}},
	{"others can read the key of a zone", "permissions", doctor.Error, false, func(w *world) {
		w.must(os.MkdirAll(filepath.Join(w.home, "zones"), 0o700))
		w.must(os.WriteFile(filepath.Join(w.home, "zones", "k51x.key"), []byte("x"), 0o640))
	}},
	{"a file belongs to another user", "owners", doctor.Error, false, func(w *world) {
		if os.Geteuid() != 0 {
			w.t.Skip("only root can give a file away")
		}
		name := filepath.Join(w.home, "petnames")
		w.must(errors.Join(os.WriteFile(name, nil, 0o600), os.Chown(name, 12345, 12345)))
	}},
	{"another process has the home locked", "node", doctor.Error, true, func(w *world) { w.lock() }},
	{"the node hangs", "node", doctor.Error, false, func(w *world) { w.node.hangs = true }},
	{"the home is not locked while a node runs", "home_in_use", doctor.Error, true, func(w *world) {
		w.node.err = nil
	}},
	{"another program writes into the home", "home_in_use", doctor.Warning, true, func(w *world) {
		w.process("4242", "rsync", filepath.Join(w.home, "store/index/000001.log"))
	}},

	// the configuration
	{"the configuration has a typing error", "configuration", doctor.Error, true, func(w *world) {
		w.deps.ConfigErr = status.Errorf(status.BadRequest, "config.toml:3:1: unknown key %q", "dht.alhpa")
	}},
	{"a file of the configuration is missing", "configuration", doctor.Error, false, func(w *world) {
		w.deps.Check = func(context.Context) error {
			return status.Errorf(status.BadRequest, "gateway.denylist: it does not exist")
		}
	}},
	{"a key has no effect any more", "obsolete_keys", doctor.Note, false, func(w *world) {
		w.must(os.WriteFile(filepath.Join(w.home, "config.toml"), []byte("[listen]\ndial_timeout = \"5s\"\n"), 0o600))
		w.deps.Config = w.load(nil)
	}},

	// the machine
	{"the disk is full", "disk_space", doctor.Error, false, func(w *world) { w.fs.FreeBytes = 1 << 20 }},
	{"the disk is almost full", "disk_space", doctor.Warning, false, func(w *world) { w.fs.FreeBytes = 512 << 20 }},
	{"no inode is left", "disk_inodes", doctor.Error, false, func(w *world) { w.fs.FreeInodes = 3 }},
	{"few inodes are left", "disk_inodes", doctor.Warning, false, func(w *world) { w.fs.FreeInodes = 2000 }},
	{"the disk hangs", "disk_sync", doctor.Warning, false, func(w *world) { w.syncTime = 3 * time.Second }},
	{"the disk is read-only", "disk_sync", doctor.Error, false, func(w *world) {
		w.syncErr = &os.PathError{Op: "open", Path: "x", Err: syscall.EROFS}
	}},
	{"the user may not write", "disk_sync", doctor.Error, false, func(w *world) {
		w.syncErr = &os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}
	}},
	{"the quota of the user is used up", "disk_sync", doctor.Error, false, func(w *world) {
		w.syncErr = &os.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}
	}},
	{"the home is on NFS", "file_system", doctor.Warning, false, func(w *world) { w.fs.Kind = "nfs" }},
	{"the home is in RAM", "file_system", doctor.Warning, false, func(w *world) { w.fs.Kind = "tmpfs" }},
	{"the home is on a USB stick", "file_system", doctor.Warning, false, func(w *world) { w.fs.Kind = "vfat" }},
	{"few files may be open", "open_files", doctor.Warning, true, func(w *world) {
		w.deps.Machine.OpenFiles = func() int64 { return 1024 }
	}},
	{"too few files may be open", "open_files", doctor.Error, true, func(w *world) {
		w.deps.Machine.OpenFiles = func() int64 { return 64 }
	}},
	{"the cgroup is small", "memory", doctor.Warning, false, func(w *world) {
		w.node.health.Process.MemoryLimit = 0
		w.file("proc/self/cgroup", "0::/a\n")
		w.file("sys/fs/cgroup/a/memory.max", "100000000\n")
	}},
	{"GOMEMLIMIT is above the cgroup", "memory", doctor.Warning, false, func(w *world) {
		w.node.health.Process.MemoryLimit = 8 << 30
		w.file("proc/self/cgroup", "5:memory:/a\n")
		w.file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n")
	}},
	{"no memory is left", "memory", doctor.Warning, false, func(w *world) {
		w.file("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 20000 kB\n")
	}},
	{"RAM alone, and swap is on", "swap", doctor.Warning, false, func(w *world) {
		w.node.health.Amnesia, w.node.version.Amnesia = true, "memory not locked"
		w.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 0 -2\n")
	}},
	{"the queue of connections is short", "somaxconn", doctor.Note, false, func(w *world) {
		w.file("proc/sys/net/core/somaxconn", "128\n")
	}},
	{"UDP buffers are small", "udp_buffers", doctor.Note, false, func(w *world) {
		w.file("proc/sys/net/core/rmem_max", "212992\n")
	}},

	// the network
	{"the cable is out", "network", doctor.Warning, true, func(w *world) { w.interfaces = w.interfaces[1:] }},
	{"there is no default route", "network", doctor.Warning, true, func(w *world) {
		w.file("proc/net/route", "Iface Destination\neth0 0000A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n")
	}},
	{"DNS is down", "dns", doctor.Warning, true, func(w *world) {
		w.deps.Config.DHT.Seeds.Bootstrap = []string{"/dns4/seed.example/tcp/4901/p2p/" + seedID}
		w.deps.Network.Resolve = func(context.Context, string) error {
			return &net.DNSError{Err: "server misbehaving", Name: "seed.example"}
		}
	}},
	{"a port is taken", "ports", doctor.Error, true, func(w *world) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		w.must(err)
		w.t.Cleanup(func() { _ = l.Close() })
		w.deps.Config.Gateway.Listen = l.Addr().String()
		free := w.deps.Network.Listen
		w.deps.Network.Listen = func(ctx context.Context, network, addr string) (io.Closer, error) {
			if addr == l.Addr().String() {
				return doctor.ThisNetwork().Listen(ctx, network, addr)
			}
			return free(ctx, network, addr)
		}
	}},
	{"a port needs root", "ports", doctor.Error, true, func(w *world) {
		w.deps.Config.Gateway.Listen = ":443"
		w.deps.Network.Listen = func(_ context.Context, _, addr string) (io.Closer, error) {
			if addr == ":443" {
				return nil, &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}
			}
			return closer{}, nil
		}
	}},
	{"the address is another machine's", "ports", doctor.Error, true, func(w *world) {
		w.deps.Config.Gateway.Listen = "192.0.2.1:8080"
		w.deps.Network.Listen = func(ctx context.Context, network, addr string) (io.Closer, error) {
			if addr == "192.0.2.1:8080" {
				return doctor.ThisNetwork().Listen(ctx, network, addr)
			}
			return closer{}, nil
		}
	}},
	{"a container hides the node", "container", doctor.Note, false, func(w *world) {
		behindRouter(w)
		w.file(".dockerenv", "")
		w.interfaces = []netip.Prefix{netip.MustParsePrefix("172.17.0.2/16")}
	}},
	{"the provider translates", "cgnat", doctor.Warning, false, func(w *world) {
		behindRouter(w)
		w.interfaces = []netip.Prefix{netip.MustParsePrefix("100.72.3.4/10")}
	}},
	{"the router is behind another router", "cgnat", doctor.Warning, false, func(w *world) {
		behindRouter(w)
		w.node.reach.Addrs = append(w.node.reach.Addrs, api.ReachAddr{
			Addr: "/ip4/100.72.3.4/tcp/4901", Scope: api.ReachLAN, Via: "router",
		})
	}},

	// reach
	{"a server is behind a firewall", "reach", doctor.Error, false, func(w *world) {
		w.node.health.Profile = string(p2p.Server)
		w.node.reach.From = api.ReachNobody
		unreachable(w, "/")
	}},
	{"the node listens on loopback alone", "reach", doctor.Warning, false, func(w *world) {
		w.node.reach.From, w.node.reach.Addrs = api.ReachMachine, nil
	}},
	{"the firewall of IPv6 is shut", "reach_ipv6", doctor.Note, false, func(w *world) { unreachable(w, "/ip6/") }},
	{"IPv4 is not forwarded", "reach_ipv4", doctor.Note, false, func(w *world) { unreachable(w, "/ip4/") }},
	{"UDP is not forwarded", "reach_quic", doctor.Note, false, func(w *world) { unreachable(w, "/quic-v1") }},
	{"TCP is not forwarded", "reach_tcp", doctor.Warning, false, func(w *world) {
		w.node.health.Profile = string(p2p.Seed)
		unreachable(w, "/tcp/")
	}},
	{"nobody confirms addresses", "confirmations", doctor.Note, false, func(w *world) { w.node.reach.Confirmers = 0 }},
	{"the NAT is symmetric", "nat", doctor.Warning, false, func(w *world) {
		behindRouter(w)
		w.node.reach.NAT.UDP = "endpoint_dependent"
	}},
	{"UPnP is off", "port_mapping", doctor.Note, false, behindRouter},
	{"a firewall drops UDP", "udp_blocked", doctor.Warning, false, func(w *world) {
		w.node.peers = nil
		for _, ip := range []string{"1.1.1.1", "1.0.0.1", "9.9.9.9", "8.8.8.8"} {
			w.node.peers = append(w.node.peers, api.Peer{Addr: "/ip4/" + ip + "/tcp/4901", Direction: "out"})
		}
	}},

	// discovery
	{"the seed refuses", "seeds", doctor.Warning, true, func(w *world) {
		w.deps.Network.Dial = dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}},
	{"no seed is connected", "seeds", doctor.Error, false, func(w *world) {
		w.node.seeds.Seeds = []api.Seed{{ID: seedID, LastError: "no answer", Tries: 4}}
	}},
	{"there is no seed", "seeds", doctor.Warning, false, func(w *world) {
		w.node.seeds.Seeds, w.node.peers = nil, nil
	}},
	{"the seed manifest has expired", "seed_manifest", doctor.Error, false, func(w *world) {
		w.node.seeds.Manifest = &api.SeedManifest{Seq: 3, NotAfter: now.Add(-time.Hour)}
	}},
	{"the seed manifest is forged", "seed_manifest", doctor.Error, true, func(w *world) {
		w.must(os.WriteFile(filepath.Join(w.home, "seeds.pem"), []byte("nothing"), 0o600))
		w.deps.Config.DHT.Seeds.SeedManifest = "seeds.pem"
		w.deps.Config.DHT.Seeds.SeedAuthorities = []string{seedID}
	}},
	{"the routing table is empty", "routing_table", doctor.Error, false, func(w *world) {
		w.node.health.Table = api.TableHealth{}
		w.node.shut("routing_table", "wait")
	}},
	{"one network has the table", "table_diversity", doctor.Warning, false, func(w *world) {
		w.node.health.Table.Largest, w.node.health.Table.Networks = 30, 2
	}},
	{"the clock is wrong", "clock", doctor.Error, false, func(w *world) {
		w.node.health.Clock.OffsetMS = 600_000
		w.node.shut("clock", "set it")
	}},
	{"the clock drifts", "clock", doctor.Warning, false, func(w *world) { w.node.health.Clock.OffsetMS = -45_000 }},
	{"the clock is in the past", "clock", doctor.Warning, true, func(w *world) {
		name := filepath.Join(w.home, homedir.KeyFile)
		w.must(os.Chtimes(name, time.Time{}, now.Add(400*24*time.Hour)))
	}},
	{"a twin runs elsewhere", "twin", doctor.Error, false, func(w *world) {
		w.node.shut("identity", "another process runs with this node's identity, at /ip4/1.2.3.4/tcp/1")
	}},

	// what the node serves
	{"the certificate has expired", "certificate", doctor.Error, true, func(w *world) {
		w.certificate(now.Add(-90*24*time.Hour), now.Add(-time.Hour), []string{"gateway.example"}, 0o600)
	}},
	{"the certificate ends soon", "certificate", doctor.Warning, true, func(w *world) {
		w.certificate(now.Add(-80*24*time.Hour), now.Add(5*24*time.Hour), []string{"gateway.example"}, 0o600)
	}},
	{"one of several certificates has expired", "certificate", doctor.Error, true, func(w *world) {
		w.certificate(now.Add(-90*24*time.Hour), now.Add(-time.Hour), []string{"b3.example"}, 0o600)
		cfg := &w.deps.Config.Gateway.TLS
		both := slices.Concat(w.read("cert.key"), w.read("cert.pem"))
		w.must(os.WriteFile(filepath.Join(w.home, "both.pem"), both, 0o600))
		w.certificate(now.Add(-time.Hour), now.Add(80*24*time.Hour), []string{"gateway.example"}, 0o600)
		cfg.Certs = []string{"both.pem"}
	}},
	{"the certificate has no names", "certificate", doctor.Error, true, func(w *world) {
		w.certificate(now.Add(-time.Hour), now.Add(80*24*time.Hour), nil, 0o600)
	}},
	{"others can read its key", "certificate_key", doctor.Error, true, func(w *world) {
		w.certificate(now.Add(-time.Hour), now.Add(80*24*time.Hour), []string{"gateway.example"}, 0o644)
	}},
	{"objects are damaged", "store_sample", doctor.Error, false, func(w *world) { w.node.health.Sample.Damaged = 2 }},
	{"the store does not open", "store_sample", doctor.Error, true, func(w *world) {
		w.deps.Sample = func(context.Context) (api.StoreSample, error) {
			return api.StoreSample{}, status.Errorf(status.Corrupt, "the index is damaged")
		}
	}},
	{"the store has lost something", "store_damage", doctor.Error, false, func(w *world) {
		w.node.shut("store_integrity", "the log has a hole")
	}},
	{"pins lack copies", "pins", doctor.Warning, false, func(w *world) { w.node.copies.AtRisk = 3 }},
	{"pinned objects are lost", "pins", doctor.Error, false, func(w *world) { w.node.copies.Lost = 1 }},
	{"a name expires", "names", doctor.Warning, false, func(w *world) {
		w.node.names[0].NotAfter = now.Add(2 * time.Hour)
	}},
	{"two nodes publish a name", "names", doctor.Error, false, func(w *world) {
		w.node.names[0].Problem = "equivocation"
	}},
	{"the bucket refuses the key", "bucket", doctor.Error, true, func(w *world) {
		w.deps.Config.Store.Backend, w.deps.Sample = store.BackendS3, nil
		w.deps.Network.Bucket = func(context.Context, s3.Config) error {
			return status.Errorf(status.Forbidden, "access denied")
		}
	}},
	{"the bucket is away", "bucket", doctor.Error, false, func(w *world) { w.node.shut("store_bucket", "it is away") }},
	{"the node is of another version", "version", doctor.Note, false, func(w *world) { w.node.version.Commit = "old" }},
	{"goroutines leak", "goroutines", doctor.Warning, false, func(w *world) {
		w.node.health.Process.Goroutines = 90_000
	}},
	{"the audit log cannot be written", "readiness", doctor.Error, false, func(w *world) {
		w.node.shut("audit", "make space")
	}},
}

// TestFaults: of the planted faults each is named by its check, with what to do.
func TestFaults(t *testing.T) {
	t.Parallel()
	if len(faults) < 40 {
		t.Errorf("only %d faults are planted", len(faults))
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, f.stopped)
			f.plant(w)
			r := w.run()
			found := of(r, f.check)
			if len(found) == 0 {
				t.Fatalf("the check %s found nothing: %+v", f.check, r)
			}
			if got := found[0]; got.Severity != f.worst || got.Evidence == "" || got.Impact == "" || got.Fix == "" {
				t.Errorf("%+v, want %s", got, f.worst)
			}
			if r.Findings[0].Severity != r.Worst {
				t.Errorf("the worst is %s, and the first finding is %+v", r.Worst, r.Findings[0])
			}
		})
	}
}

// TestHealthy: a healthy node has no finding but that its keys should be copied, and every check has an outcome.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		w := newWorld(t, stopped)
		r := w.run()
		if r.Worst != doctor.Note || len(r.Findings) != 1 || len(of(r, "key_backup")) != 1 {
			t.Errorf("stopped %v: %+v", stopped, r.Findings)
		}
		if n := len(r.Passed) + len(r.Skipped) + 1; n != len(doctor.Checks()) || n < 25 {
			t.Errorf("stopped %v: %d outcomes of %d checks", stopped, n, len(doctor.Checks()))
		}
		if stopped {
			continue
		}
		want := []string{"certificate_key", "dns", "ports", "seed_manifest", "swap"}
		if got := skipped(r); !slices.Equal(got, want) {
			t.Errorf("skipped: %v, want %v", got, want)
		}
	}
}

// TestLoopbackMapsNothing: a router is not blamed when a node listens on loopback alone.
func TestLoopbackMapsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.node.reach.From, w.node.reach.Addrs = api.ReachMachine, nil
	if r := w.run(); !slices.Contains(skipped(r), "port_mapping") || len(of(r, "reach")) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestEveryCheckIsPlanted: for each check there is a fault that it finds.
func TestEveryCheckIsPlanted(t *testing.T) {
	t.Parallel()
	planted := map[string]bool{"key_backup": true}
	for _, f := range faults {
		planted[f.check] = true
	}
	for _, c := range doctor.Checks() {
		if !planted[c.Name] {
			t.Errorf("no fault is planted for the check %s", c.Name)
		}
	}
}

// TestNothingWorks: without network, DNS, rights and files an examination ends with findings and skipped checks.
func TestNothingWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	gone := errors.New("gone")
	w.deps.Machine.Root = filepath.Join(w.root, "none")
	w.deps.Machine.Statfs = func(string) (doctor.FileSystem, error) { return doctor.FileSystem{}, gone }
	w.deps.Machine.Interfaces = func() ([]netip.Prefix, error) { return nil, gone }
	w.deps.Machine.OpenFiles = func() int64 { return 0 }
	w.deps.Machine.Sync = func(string) (time.Duration, error) { return 0, gone }
	w.deps.Network.Dial = dialError(gone)
	w.deps.Network.Resolve = func(context.Context, string) error { return gone }
	w.deps.Network.Listen = func(context.Context, string, string) (io.Closer, error) { return nil, gone }
	w.deps.Sample = func(context.Context) (api.StoreSample, error) { panic("a bug") }
	w.deps.Home = filepath.Join(w.home, "none")
	w.deps.Now = func() time.Time { return time.Time{} } // a machine without a clock
	r := w.run()
	if r.Worst != doctor.Error || len(r.Findings)+len(r.Passed)+len(r.Skipped) < len(doctor.Checks()) {
		t.Errorf("%+v", r)
	}
}

// TestHangingCheck: a check that never ends is a finding, and the examination ends.
func TestHangingCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	w.deps.Machine.Statfs = func(string) (doctor.FileSystem, error) {
		<-never
		return doctor.FileSystem{}, nil
	}
	r := w.run()
	found := of(r, "disk_space")
	if len(found) != 1 || !strings.Contains(found[0].Evidence, "did not end within 2s") {
		t.Errorf("%+v", found)
	}
}

// TestEverythingHangs: the node answers nothing, and no system call and nothing in the network ends. The examination
// ends within 5 s all the same, with an outcome for every check.
func TestEverythingHangs(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, stopped)
			never := make(chan struct{})
			w.node.hangs = true
			w.deps.Check = func(context.Context) error { <-never; return nil }
			w.deps.Sample = func(context.Context) (api.StoreSample, error) { <-never; return api.StoreSample{}, nil }
			w.deps.Machine.Statfs = func(string) (doctor.FileSystem, error) { <-never; return w.fs, nil }
			w.deps.Machine.Interfaces = func() ([]netip.Prefix, error) { <-never; return nil, nil }
			w.deps.Machine.OpenFiles = func() int64 { <-never; return 0 }
			w.deps.Machine.Sync = func(string) (time.Duration, error) { <-never; return 0, nil }
			w.deps.Network.Dial = func(context.Context, string, string) (net.Conn, error) { <-never; return nil, errDown }
			w.deps.Network.Resolve = func(context.Context, string) error { <-never; return nil }
			w.deps.Network.Listen = func(context.Context, string, string) (io.Closer, error) { <-never; return nil, errDown }
			begun := time.Now()
			r := w.run()
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("stopped %v: it took %s", stopped, took)
			}
			if n := len(r.Findings) + len(r.Passed) + len(r.Skipped); n < len(doctor.Checks()) || r.Worst == doctor.OK {
				t.Errorf("stopped %v: %d outcomes of %d checks, the worst is %s", stopped, n, len(doctor.Checks()), r.Worst)
			}
			close(never) // what was left behind ends
		})
	}
}
