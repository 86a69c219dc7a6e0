package server

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"allium/gateway/certs"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config describes the public listener, and bounds its connections and requests.
// The timeouts hold for every listener.
type Config struct {
	Listen string `koanf:"listen" doc:"address of the public listener, host:port; port 0 is any free one, empty is no public listener"`

	Inflight       int64    `koanf:"inflight" doc:"requests being decided at once, that is, until they ask the network or their answer's body is under way; the next is refused with busy"`
	InflightPerIP  int64    `koanf:"inflight_per_ip" doc:"requests of one IPv4 address or IPv6 /64 being decided at once; the next is refused with busy; 0 is no limit"`
	Transfers      int64    `koanf:"transfers" doc:"answers whose body is under way at once; for the next, the slowest of the client that has most is cut off"`
	Uploads        int64    `koanf:"uploads" doc:"uploads read at once; the next is refused with busy"`
	Rate           float64  `koanf:"rate" doc:"requests per second, of which each client that asks has an equal share and may use what others leave; more are refused with rate_limit; 0 is no limit"`
	Burst          int      `koanf:"burst" doc:"requests above the rate that may come at once"`
	Conns          int64    `koanf:"conns" doc:"open connections of the public listener; for the next, the one that waits longest is closed"`
	ConnsPerIP     int      `koanf:"conns_per_ip" doc:"open connections from one IPv4 address or IPv6 /64; the next is closed at once; 0 is no limit"`
	TrustedProxies []string `koanf:"trusted_proxies" doc:"addresses or CIDRs of proxies before this node, whose X-Forwarded-For and Forwarded say who asks; from others these headers are ignored"`

	HeaderTimeout time.Duration `koanf:"header_timeout" doc:"how long a client may take to send a request header"`
	IdleTimeout   time.Duration `koanf:"idle_timeout" doc:"how long a connection stays open between requests"`
	HeaderBytes   limits.Bytes  `koanf:"header_bytes" doc:"longest request header in bytes"`
	WriteTimeout  time.Duration `koanf:"write_timeout" doc:"how long a client may take nothing, beside the time that min_rate allows"`
	MinRate       limits.Bytes  `koanf:"min_rate" doc:"bytes per second below which a client is cut off"`
	SlowRequest   time.Duration `koanf:"slow_request" doc:"time to the first byte from which a request is logged as slow"`

	CORSOrigins []string `koanf:"cors_origins" doc:"origins, such as https://app.example.org, whose pages may read what the public listener answers; * is every one, empty is none"`

	H2C bool `koanf:"h2c" doc:"speak HTTP/2 without TLS to clients that begin with it, for a proxy that ends TLS before the node"`

	TLS certs.Config `koanf:"tls"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8080",

		Inflight: 512, InflightPerIP: 128, Transfers: 4096, Uploads: 64, Rate: 500, Burst: 1000, Conns: 4096, ConnsPerIP: 256,

		HeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, HeaderBytes: 16 << 10,
		WriteTimeout: 5 * time.Second, MinRate: 8 << 10, SlowRequest: 2 * time.Second,
		TLS: certs.DefaultConfig(),
	}
}

// Validate returns bad_request naming the first key that makes no sense.
func (c Config) Validate() error {
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return status.Errorf(status.BadRequest, "gateway.listen is %q, want host:port such as 127.0.0.1:8080: %w", c.Listen, err)
		}
	}
	if err := exchange.CheckKeys(map[string]bool{
		"inflight": c.Inflight >= 1, "inflight_per_ip": c.InflightPerIP >= 0, "transfers": c.Transfers >= 1, "uploads": c.Uploads >= 1,
		"rate": c.Rate == 0 || c.Rate >= 1, "burst": c.Burst >= 1, "conns": c.Conns >= 1, "conns_per_ip": c.ConnsPerIP >= 0,
		"header_timeout": c.HeaderTimeout > 0, "idle_timeout": c.IdleTimeout > 0, "header_bytes": c.HeaderBytes >= 1<<10,
		"write_timeout": c.WriteTimeout > 0, "min_rate": c.MinRate >= 1, "slow_request": c.SlowRequest > 0,
	}); err != nil {
		return err
	}
	if err := exchange.CheckPerIP("inflight_per_ip", c.InflightPerIP); err != nil {
		return err
	}
	if err := exchange.CheckPerIP("conns_per_ip", int64(c.ConnsPerIP)); err != nil {
		return err
	}
	if _, err := parseProxies(c.TrustedProxies); err != nil {
		return err
	}
	if err := checkOrigins(c.CORSOrigins); err != nil {
		return err
	}
	return c.TLS.Validate(c.Listen, c.H2C)
}

// AdminConfig describes the admin listener and the Unix socket.
type AdminConfig struct {
	Listen   string   `koanf:"listen" doc:"loopback address of the admin listener, host:port; port 0 is any free one, empty is no admin listener"`
	Hosts    []string `koanf:"hosts" doc:"names that requests to the admin listener may carry as Host, beside its own address and localhost"`
	Inflight int64    `koanf:"inflight" doc:"API requests served at once on the admin listener and the socket; the next is refused with busy"`
	Conns    int64    `koanf:"conns" doc:"open connections of the admin listener, and as many of the socket; the next is closed at once"`
}

// DefaultAdminConfig returns the addresses of SPEC §9.
func DefaultAdminConfig() AdminConfig {
	return AdminConfig{Listen: "127.0.0.1:9600", Inflight: 64, Conns: 256}
}

// Validate returns bad_request naming the first key that makes no sense. What
// is looked at on the admin listener needs no capability, so it is on loopback.
func (c AdminConfig) Validate() error {
	if c.Listen != "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return status.Errorf(status.BadRequest, "admin.listen is %q, want host:port such as 127.0.0.1:9600: %w", c.Listen, err)
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return status.Errorf(status.BadRequest, "admin.listen is %q, which others can reach; use a loopback address such as 127.0.0.1:9600, and a tunnel to it", c.Listen)
		}
	}
	for _, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/* ") {
			return status.Errorf(status.BadRequest, "admin.hosts holds %q, want host names without scheme, port or *", h)
		}
	}
	if c.Inflight < 1 || c.Conns < 1 {
		return status.Errorf(status.BadRequest, "admin.inflight and admin.conns must be at least 1")
	}
	return nil
}
