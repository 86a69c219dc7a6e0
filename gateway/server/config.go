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

// Config configures the public listener and limits its connections and requests. The timeouts
// apply to every listener.
// node/config/keys.txt says what each key means.
type Config struct {
	RequestParams `koanf:"-"` // fixed: never read from a file or the environment

	Listen string `koanf:"listen"`

	Inflight       int64    `koanf:"inflight" hot:"true"`
	InflightPerIP  int64    `koanf:"inflight_per_ip" hot:"true"`
	Transfers      int64    `koanf:"transfers" hot:"true"`
	Uploads        int64    `koanf:"uploads" hot:"true"`
	Rate           float64  `koanf:"rate" hot:"true"`
	Burst          int      `koanf:"burst" hot:"true"`
	Conns          int64    `koanf:"conns" hot:"true"`
	ConnsPerIP     int      `koanf:"conns_per_ip" hot:"true"`
	TrustedProxies []string `koanf:"trusted_proxies" hot:"true"`
	Prefix         string   `koanf:"prefix" hot:"true"`

	IdleTimeout time.Duration `koanf:"idle_timeout"`
	MinRate     limits.Bytes  `koanf:"min_rate" hot:"true"`

	CORSOrigins []string `koanf:"cors_origins" hot:"true"`

	H2C bool `koanf:"h2c"`

	TLS certs.Config `koanf:"tls"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{
		RequestParams: defaultRequestParams(),

		Listen: "127.0.0.1:8080",

		Inflight: 512, InflightPerIP: 128, Transfers: 4096, Uploads: 64,
		Rate: 500, Burst: 1000, Conns: 4096, ConnsPerIP: 256,

		IdleTimeout: time.Minute, MinRate: 8 << 10,
		TLS: certs.DefaultConfig(),
	}
}

// Validate returns bad_request and names the first key with an invalid value.
func (c Config) Validate() error {
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return status.Errorf(status.BadRequest,
				"gateway.listen is %q (%w). Set it to host:port such as 127.0.0.1:8080",
				c.Listen, err)
		}
	}
	if err := exchange.CheckMinimums(map[string]bool{
		"inflight": c.Inflight >= 1, "inflight_per_ip": c.InflightPerIP >= 0,
		"transfers": c.Transfers >= 1, "uploads": c.Uploads >= 1,
		"rate": c.Rate == 0 || c.Rate >= 1, "burst": c.Burst >= 1,
		"conns": c.Conns >= 1, "conns_per_ip": c.ConnsPerIP >= 0,
		"idle_timeout": c.IdleTimeout > 0, "min_rate": c.MinRate >= 1,
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
	if err := checkPrefix(c.Prefix); err != nil {
		return err
	}
	if err := exchange.CheckOrigins("gateway.cors_origins", c.CORSOrigins); err != nil {
		return err
	}
	return c.TLS.Validate(c.Listen, c.H2C)
}

// AdminConfig configures the admin listener and the Unix socket.
// node/config/keys.txt says what each key means.
type AdminConfig struct {
	AdminParams `koanf:"-"` // fixed: never read from a file or the environment

	Listen string   `koanf:"listen"`
	Hosts  []string `koanf:"hosts"`
}

// DefaultAdminConfig returns the addresses of SPEC §9.
func DefaultAdminConfig() AdminConfig {
	return AdminConfig{AdminParams: defaultAdminParams(), Listen: "127.0.0.1:9600"}
}

// Validate returns bad_request and names the first key with an invalid value. The admin
// listener must be on loopback, because reading on it needs no capability.
func (c AdminConfig) Validate() error {
	if c.Listen != "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return status.Errorf(status.BadRequest,
				"admin.listen is %q (%w). Set it to host:port such as 127.0.0.1:9600",
				c.Listen, err)
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return status.Errorf(status.BadRequest, "admin.listen is %q, which other machines can reach. "+
				"Set it to a loopback address such as 127.0.0.1:9600, and use a tunnel", c.Listen)
		}
	}
	for _, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/* ") {
			return status.Errorf(status.BadRequest,
				"admin.hosts contains %q. Set it to host names without scheme, port or *", h)
		}
	}
	return nil
}
