package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/internal/privatefile"
	homedir "allium/node/home"
	"allium/protocols/dht/seeds"
	"allium/protocols/status"
)

// The bounds of dials of seeds while no node runs.
const (
	dialWait    = 1500 * time.Millisecond // for one
	dialsAtOnce = 16
	maxDials    = 32
)

func checkSeeds(ctx context.Context, e *exam) result {
	if e.Node == nil {
		if e.Home == "" || e.inUse {
			return skip("no node answers")
		}
		return dialSeeds(ctx, e)
	}
	list := e.node.seeds
	if list.err != nil {
		return skipErr(list.err)
	}
	connected := 0
	var all result
	for _, s := range list.value.Seeds {
		if s.Connected {
			connected++
		} else if s.LastError != "" {
			all = all.and(note(say("the seed %s does not answer: %s", s.ID,
				strings.Join(strings.Fields(s.LastError), " ")),
				"the node finds others through the other seeds", "remove it from dht.bootstrap if it stays away"))
		}
	}
	switch {
	case len(list.value.Seeds) == 0 && len(e.node.peers.value) == 0 && !e.testnet():
		return warn(say("no seed is configured, and no peer is connected"),
			"the node finds nobody, and nobody finds it", "name seeds in dht.bootstrap, or `allium connect` to a peer")
	case len(list.value.Seeds) > 0 && connected == 0:
		for i := range all.found {
			all.found[i].Severity, all.found[i].Impact = Error, noSeed
			all.found[i].Fix = "check the network of this machine, and that the seed runs; `allium seeds` shows all"
		}
		if len(all.found) == 0 {
			return note(say("none of %d seeds is connected yet", len(list.value.Seeds)), noSeed,
				"ask again in a minute")
		}
	}
	return all
}

const noSeed = "the node finds nobody new in the network"

// target is an address of a seed that is tried while no node runs.
type target struct {
	seed          peer.ID
	network, addr string // for a dial
	name          string // for DNS, if there is no network
}

// targets returns what can be tried of some seeds, and how many of their addresses cannot be: QUIC is for a node.
func targets(list []peer.AddrInfo) (all []target, untried int) {
	for _, s := range list {
		for _, a := range s.Addrs {
			if name, err := a.ValueForProtocol(ma.P_DNSADDR); err == nil {
				all = append(all, target{seed: s.ID, name: "_dnsaddr." + name})
				continue
			}
			network, addr, err := manet.DialArgs(a)
			if err != nil || !strings.HasPrefix(network, "tcp") {
				untried++
				continue
			}
			all = append(all, target{seed: s.ID, network: network, addr: addr})
		}
	}
	return all[:min(len(all), maxDials)], untried
}

// dialSeeds tries to connect to the seeds of the configuration over TCP.
func dialSeeds(ctx context.Context, e *exam) result {
	list, err := seeds.ParseAddrs(e.Config.DHT.Seeds.Bootstrap)
	if err != nil {
		return skip("see the check configuration")
	}
	if m, _, err := e.manifest(); err == nil {
		list = append(list, m.Seeds...)
	}
	if len(list) == 0 {
		return skip("no seed is configured")
	}
	all, untried := targets(list)
	if len(all) == 0 {
		return skip(fmt.Sprintf("the seeds have %d addresses with QUIC alone, which only a node can dial", untried))
	}
	errs := make([]error, len(all))
	places := make(chan struct{}, dialsAtOnce) // bound: dials at once
	var dials sync.WaitGroup
	for i, t := range all {
		dials.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs[i] = try(ctx, e, t)
		})
	}
	dials.Wait()
	var found result
	good := false
	for i, err := range errs {
		if good = good || err == nil; err != nil {
			t := all[i]
			found = found.and(warn(say("the seed %s does not answer at %s: %s", t.seed.String(), t.name+t.addr,
				plain(DialWords(err))), noSeed, dialFix(err)))
		}
	}
	if good {
		for i := range found.found {
			found.found[i].Severity = Note
		}
	}
	return found
}

// try connects to a target, or looks its name up.
func try(ctx context.Context, e *exam, t target) error {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	if t.network == "" {
		return e.Network.Resolve(ctx, t.name)
	}
	conn, err := e.Network.Dial(ctx, t.network, t.addr)
	if err == nil {
		_ = conn.Close() // it was only tried
	}
	return err
}

// DialWords says why a dial failed, without the address.
func DialWords(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "its name does not exist"
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return "no answer"
	}
	return errno(err)
}

// dialFix says what to do about a failed dial.
func dialFix(err error) string {
	switch DialWords(err) {
	case "connection refused":
		return "ask its operator whether it runs, and check the port in dht.bootstrap"
	case "no answer":
		return "check the firewall between this machine and the seed, and ask its operator whether it runs"
	case "its name does not exist":
		return "correct the name in dht.bootstrap"
	}
	return "check the network and the DNS of this machine"
}

// maxManifest bounds what is read of a seed manifest, in bytes: more than a valid one has.
const maxManifest = 128 << 10

// manifest reads the signed list of seeds of the configuration. The file is empty if none is configured.
func (e *exam) manifest() (m seeds.Manifest, file string, err error) {
	cfg := e.Config.DHT.Seeds
	if cfg.SeedManifest == "" {
		return m, "", fs.ErrNotExist
	}
	file = homedir.Path(e.Home, cfg.SeedManifest)
	trusted, err := seeds.ParseIDs(cfg.SeedAuthorities)
	if err != nil {
		return m, file, err
	}
	raw, err := privatefile.Read(file, maxManifest, 0)
	if err != nil {
		return m, file, err
	}
	m, _, err = seeds.Open(raw, trusted, e.Now())
	return m, file, err
}

// soonEnds is the rest of its life from which on a seed manifest is reported.
const soonEnds = 7 * 24 * time.Hour

func checkManifest(_ context.Context, e *exam) result {
	const impact = "the node uses the last valid list, and finds no new seeds"
	const fix = "get the current file from the authority; `allium seeds inspect FILE` checks it"
	if e.Node != nil {
		m := e.node.seeds.value.Manifest
		switch {
		case e.node.seeds.err != nil:
			return skipErr(e.node.seeds.err)
		case m == nil:
			return skip("none is configured")
		case m.Error != "":
			return fail(say("the seed manifest does not count: %s", m.Error), impact, fix)
		}
		return e.expires(say("the seed manifest"), m.NotAfter, soonEnds, impact, fix)
	}
	if e.Home == "" || e.Config.DHT.Seeds.SeedManifest == "" {
		return skip("none is configured")
	}
	m, file, err := e.manifest()
	if err != nil && status.Of(err) != status.Stale {
		why := Reason(err)
		if !status.HasOutcome(err) {
			why = statErr(err)
		}
		return fail(say("the seed manifest %s does not count: %s", file, why), impact, fix)
	}
	return e.expires(say("the seed manifest %s", file), m.NotAfter, soonEnds, impact, fix)
}

func checkDNS(ctx context.Context, e *exam) (all result) {
	names := hostNames(e)
	if len(names) == 0 {
		return skip("the configuration has no host names")
	}
	for _, name := range names {
		err := e.Network.Resolve(ctx, name)
		if ctx.Err() != nil {
			err = context.DeadlineExceeded
		}
		if err != nil {
			all = all.and(warn(say("the host name %s: %s", name, plain(DialWords(err))),
				"the node cannot reach what it names", "check the DNS of this machine (resolv.conf), and the name"))
		}
	}
	return all
}

// maxNames bounds the host names that are looked up.
const maxNames = 8

// hostNames returns host names of the configuration that the node looks up.
func hostNames(e *exam) (names []string) {
	add := func(name string) {
		if name != "" && net.ParseIP(name) == nil && name != "localhost" && !slices.Contains(names, name) &&
			len(names) < maxNames {
			names = append(names, name)
		}
	}
	for _, text := range slices.Concat(e.Config.DHT.Seeds.Bootstrap, e.Config.Listen.Relays) {
		a, err := ma.NewMultiaddr(text)
		if err != nil {
			continue
		}
		for _, c := range a {
			switch c.Code() {
			case ma.P_DNS, ma.P_DNS4, ma.P_DNS6:
				add(c.Value())
			case ma.P_DNSADDR:
				add("_dnsaddr." + c.Value())
			}
		}
	}
	if host := bucketHost(e); host != "" {
		add(host)
	}
	return names
}
