// Package config loads, validates and explains the node's configuration. [Config] is
// one struct that nests the Config of each package (SPEC §10).
//
// Each package owns its fields and their bounds. keys.txt describes each key, in the
// order of `allium config show` and docs/reference/config.md. The Params that a
// package embeds in its Config are fixed: neither a file nor the environment sets
// them. A key of an earlier version that names one is an error, unless it has the
// fixed value. A running node reads its configuration
// again only for the keys that a reload applies, those with the tag hot (hot.go). A map field whose values are
// structs is a table by name (tables.go): the operator names its entries, and keys.txt has
// NAME in place of the name.
//
// One start, walked through: `allium run --listen …` calls [Load] with the path of
// the file, the environment and the flags. Load merges the three, reports keys that
// are unknown or fixed (unsettable), decodes the rest onto [Default] of the profile,
// applies node.amnesia (settle), calls [Config.Validate], and notes where the value
// of each key came from. Everything that is wrong is in one error.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"allium/gateway"
	"allium/gateway/fill"
	"allium/gateway/pack"
	"allium/gateway/policy/audit"
	"allium/gateway/server"
	"allium/internal/limits"
	"allium/node/p2p"
	"allium/protocols/dht"
	"allium/protocols/gossip"
	"allium/protocols/hints"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/resolver"
	"allium/resolver/names/zones"
	"allium/store"
	"allium/store/cluster/durability"
	"allium/store/cluster/offer"
	"allium/store/meta"
)

// testnetPassOn is the names.Config.PassOn of a testnet's node, so that a scenario sees holders pass
// records on.
const testnetPassOn = 5 * time.Second

// FileName is the configuration file in a home directory.
const FileName = "config.toml"

// Profile selects the defaults.
type Profile = p2p.Profile

// Config is the configuration of a node.
type Config struct {
	Node       Node              `koanf:"node"`
	Amnesia    Amnesia           `koanf:"amnesia"`
	Listen     p2p.Config        `koanf:"listen"`
	Session    session.Config    `koanf:"session"`
	Object     object.Config     `koanf:"object"`
	DHT        dht.Config        `koanf:"dht"`
	Gossip     gossip.Config     `koanf:"gossip"`
	Announce   hints.Config      `koanf:"announce"`
	Store      store.Config      `koanf:"store"`
	Durability durability.Config `koanf:"durability"`
	Resolver   resolver.Config   `koanf:"resolver"`
	Names      zones.Config      `koanf:"names"`
	HTTP       `koanf:",squash"`
	Audit      audit.Config `koanf:"audit"`
	Telemetry  `koanf:",squash"`
}

// Telemetry has the settings of what a node tells its operator.
type Telemetry struct {
	Log   Log   `koanf:"log"`
	Trace Trace `koanf:"trace"`
}

// Trace has the settings of traces.
type Trace struct {
	Films    bool    `koanf:"films"`
	Endpoint string  `koanf:"endpoint"`
	Ratio    float64 `koanf:"ratio"`
}

// HTTP has the settings of the listeners and of what they serve.
type HTTP struct {
	Gateway gateway.Config     `koanf:"gateway"`
	Edge    Edge               `koanf:"edge"`
	Admin   server.AdminConfig `koanf:"admin"`
}

// Edge has the settings of packs, and of sources and their origins.
type Edge struct {
	Pack pack.Config `koanf:",squash"`
	Fill fill.Config `koanf:",squash"`
}

// Node has the settings of the process as a whole.
type Node struct {
	Profile       Profile       `koanf:"profile"`
	Amnesia       bool          `koanf:"amnesia"`
	DrainDeadline time.Duration `koanf:"drain_deadline"`
	SwarmKey      string        `koanf:"swarm_key"`
	Region        string        `koanf:"region"`
	Domain        string        `koanf:"domain"`
	UploadRate    limits.Bytes  `koanf:"upload_rate" hot:"true"`
	DownloadRate  limits.Bytes  `koanf:"download_rate" hot:"true"`
	LimitLAN      bool          `koanf:"limit_lan" hot:"true"`
	ReloadGuard   time.Duration `koanf:"reload_guard" hot:"true"`
	LowPower      bool          `koanf:"low_power"`
}

// Log has the settings of the log.
type Log struct {
	Level  string `koanf:"level" hot:"true"`
	Format string `koanf:"format"`
}

// Default returns the default configuration of a profile. That of an unknown profile
// is the desktop's with the unknown name, which fails Validate.
func Default(p Profile) Config {
	listen, err := p2p.ProfileConfig(p)
	if err != nil {
		listen = p2p.DefaultConfig()
		listen.Profile = p
	}
	c := Config{
		Node:       Node{Profile: p, DrainDeadline: 3 * time.Second, ReloadGuard: time.Minute},
		Listen:     listen,
		Session:    session.DefaultConfig(),
		Object:     object.DefaultConfig(),
		DHT:        dht.DefaultConfig(),
		Gossip:     gossip.DefaultConfig(),
		Announce:   hints.DefaultConfig(),
		Store:      store.DefaultConfig(),
		Durability: durability.Default(),
		Resolver:   resolver.DefaultConfig(),
		HTTP: HTTP{
			Gateway: gateway.DefaultConfig(),
			Edge:    Edge{Pack: pack.DefaultConfig(), Fill: fill.DefaultConfig()},
			Admin:   server.DefaultAdminConfig(),
		},
		Audit: audit.DefaultConfig(),
		Telemetry: Telemetry{
			Log:   Log{Level: "info", Format: "text"},
			Trace: Trace{Films: true, Ratio: 0.01},
		},
	}
	c.Store.Dir = "store" // below the home directory
	switch p {
	case p2p.Gateway:
		c.Gateway.Listen = ":8080"
	case p2p.Pi:
		c.Node.LowPower = true
		c.Session.EgressBytes, c.Object.EgressBytes = 16<<20, 16<<20
		c.Store.HotBytes, c.Store.ScrubRate = 16<<20, 4<<20 // what an SD card reads beside other work
	case p2p.Micronode:
		c.Session.IdleTimeout = 15 * time.Second
		c.Node.Amnesia, c.Store.Backend = true, store.BackendMemory
	case p2p.Seed:
		c.DHT.Server = true
	case p2p.Testnet:
		c.DHT.Server = true
		c.DHT.Names.PassOn = testnetPassOn
		c.Durability = durability.Testnet()
		c.Gateway.Listen, c.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	}
	return c
}

// Validate checks every part and names each key that is out of its bounds.
func (c Config) Validate() error {
	errs := []error{
		c.Node.validate(), c.Listen.Validate(), c.Session.Validate(), c.Object.Validate(), c.DHT.Validate(),
		c.Gossip.Validate(), c.Announce.Validate(), c.Store.Validate(), c.Durability.Validate(), c.Resolver.Validate(),
		c.Names.Validate(), c.Gateway.Validate(), c.Edge.Pack.Validate(), c.Edge.Fill.Validate(), c.Admin.Validate(),
		c.Audit.Validate(), c.Log.validate(), c.Trace.validate(),
	}
	if c.Node.Profile != c.Listen.Profile {
		errs = append(errs, fmt.Errorf("node.profile is %q, the host's is %q", c.Node.Profile, c.Listen.Profile))
	}
	if c.Node.Amnesia && c.Store.Backend != store.BackendMemory {
		errs = append(errs,
			fmt.Errorf("store.backend is %q, and node.amnesia keeps everything in RAM: it must be %s, or "+
				"node.amnesia false", c.Store.Backend, store.BackendMemory))
	}
	if !c.JoinsCluster() && len(c.Durability.Targets) > 0 {
		errs = append(errs,
			errors.New("durability.targets asks for copies on other nodes, and this node joins no cluster, "+
				"as it keeps its content in RAM or is a seed"))
	}
	if c.Durability.Offer > 0 && slices.ContainsFunc(c.Store.Quotas, func(q string) bool {
		return strings.HasPrefix(q, meta.ClusterLabel+"=")
	}) {
		errs = append(errs,
			fmt.Errorf("durability.offer and an entry for %q in store.quotas bound the same bytes: leave "+
				"out one of them", meta.ClusterLabel))
	}
	return errors.Join(errs...)
}

// JoinsCluster reports whether a node with a key in its ring is a member of a cluster: its content outlives it.
func (c Config) JoinsCluster() bool {
	return !c.Node.Amnesia && c.Node.Profile != p2p.Seed && c.Store.Backend != store.BackendMemory
}

// The lowest rates in bytes per second. Below them a frame takes so long that peers give up.
const (
	leastUpload   limits.Bytes = 32 << 10
	leastDownload limits.Bytes = 128 << 10
)

// maxReloadGuard bounds node.reload_guard: a gate that shuts later has another cause.
const maxReloadGuard = time.Hour

func (n Node) validate() error {
	if n.DrainDeadline < time.Second || n.DrainDeadline > 5*time.Second {
		return fmt.Errorf("node.drain_deadline is %s, must be 1s to 5s", n.DrainDeadline)
	}
	if n.UploadRate < 0 || n.UploadRate > 0 && n.UploadRate < leastUpload {
		return fmt.Errorf("node.upload_rate is %s, must be 0 or at least %s: peers and clients end what is slower",
			n.UploadRate, leastUpload)
	}
	if n.DownloadRate < 0 || n.DownloadRate > 0 && n.DownloadRate < leastDownload {
		return fmt.Errorf("node.download_rate is %s, must be 0 or at least %s: peers end what is read slower",
			n.DownloadRate, leastDownload)
	}
	if n.ReloadGuard < 0 || n.ReloadGuard > maxReloadGuard {
		return fmt.Errorf("node.reload_guard is %s, must be 0s to %s", n.ReloadGuard, formatDuration(maxReloadGuard))
	}
	if !session.ValidRegion(n.Region) {
		return fmt.Errorf("node.region is %q, must be at most 32 bytes of a-z, 0-9, -, . and _", n.Region)
	}
	if err := offer.CheckText("domain", n.Domain, offer.MaxDomain); err != nil {
		return fmt.Errorf("node.domain: %w", err)
	}
	return nil
}

// SlogLevel returns the lowest level that is logged.
func (l Log) SlogLevel() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l.Level)) // validated
	return level
}

func (l Log) validate() error {
	switch l.Level {
	case "debug", "info", "warn", "error":
	default:
		return fmt.Errorf("log.level is %q, must be debug, info, warn or error", l.Level)
	}
	if l.Format != "text" && l.Format != "json" {
		return fmt.Errorf("log.format is %q, must be text or json", l.Format)
	}
	return nil
}

// validate checks the collector and the ratio.
func (t Trace) validate() error {
	if t.Ratio < 0 || t.Ratio > 1 || math.IsNaN(t.Ratio) {
		return fmt.Errorf("trace.ratio is %v, must be from 0 to 1", t.Ratio)
	}
	if t.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(t.Endpoint)
	bad := err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != ""
	switch {
	case !bad && u.User != nil, bad && strings.Contains(t.Endpoint, "@"): // the other error would show them
		return errors.New("trace.endpoint has credentials, which are never sent: take them out of the URL")
	case bad:
		return fmt.Errorf("trace.endpoint is %q, must be the http or https URL of a collector, such as "+
			"http://127.0.0.1:4318/v1/traces", t.Endpoint)
	}
	return nil
}
