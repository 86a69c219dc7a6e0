package certs

import (
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"allium/protocols/status"
)

// Config makes the public listener speak https, with the operator's own certificates,
// with certificates of an ACME authority, or with both. With neither it speaks http.
// node/config/keys.txt says what each key means.
type Config struct {
	Cert  string   `koanf:"cert" hot:"nonzero"`
	Key   string   `koanf:"key" hot:"nonzero"`
	Certs []string `koanf:"certs" hot:"nonzero"`

	ACME `koanf:",squash"`

	RedirectListen string `koanf:"redirect_listen"`
	RedirectPort   int    `koanf:"redirect_port"`

	HSTS           time.Duration `koanf:"hsts"`
	HSTSSubdomains bool          `koanf:"hsts_subdomains"`
}

// ACME says which certificates an authority is asked for, and which authority.
type ACME struct {
	ACMEDomains   []string `koanf:"acme_domains"`
	ACMEOnDemand  bool     `koanf:"acme_on_demand"`
	ACMEIP        bool     `koanf:"acme_ip"`
	ACMEEmail     string   `koanf:"acme_email"`
	ACMEDirectory string   `koanf:"acme_directory"`
	ACMECA        string   `koanf:"acme_ca"`
	ACMEAcceptTOS bool     `koanf:"acme_accept_tos"`
}

// Orders reports whether any certificate is ordered from an authority.
func (a ACME) Orders() bool { return len(a.ACMEDomains) > 0 || a.ACMEOnDemand || a.ACMEIP }

// letsEncrypt is the ACME directory URL of Let's Encrypt.
const letsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// maxACMEDomains is the most certificates that one node orders. Authorities limit
// orders too.
const maxACMEDomains = 32

// maxCerts is the most entries of gateway.tls.certs. Each is looked at every two seconds.
const maxCerts = 64

// DefaultConfig returns a listener that speaks http. Its other values apply once a
// certificate is configured.
func DefaultConfig() Config {
	return Config{ACME: ACME{ACMEDirectory: letsEncrypt}, HSTS: 365 * 24 * time.Hour}
}

// Enabled reports whether the public listener speaks https.
func (c Config) Enabled() bool { return c.ownFiles() || c.Orders() }

// ownFiles reports whether the operator names files of certificates.
func (c Config) ownFiles() bool { return c.Cert != "" || c.Key != "" || len(c.Certs) > 0 }

// Validate returns bad_request for the first key whose value is invalid, alone or
// with the others. listen and h2c are the gateway's keys of these names.
func (c Config) Validate(listen string, h2c bool) error {
	bad := func(format string, args ...any) error {
		return status.Errorf(status.BadRequest, "gateway.tls."+format, args...)
	}
	switch {
	case c.HSTS < 0:
		return bad("hsts is negative; 0 is none")
	case c.RedirectPort < 0 || c.RedirectPort > 65535:
		return bad("redirect_port is %d, want a port, or 0 for that of gateway.listen", c.RedirectPort)
	case !c.Enabled() && c.RedirectListen != "":
		return bad("redirect_listen sends to https, but there is none; set gateway.tls.cert and key, certs, " +
			"or acme_domains")
	case !c.Enabled():
		return nil
	case listen == "":
		return bad("cert, certs or an acme key is set, but gateway.listen is empty; set it to an address such as " +
			"0.0.0.0:443")
	case h2c:
		return status.Errorf(status.BadRequest,
			"gateway.h2c is for http behind a proxy; with gateway.tls browsers get "+
				"HTTP/2 anyway, so remove it")
	case (c.Cert == "") != (c.Key == ""):
		return bad("cert and key belong together; set both")
	case len(c.Certs) > maxCerts:
		return bad("certs holds %d entries, at most %d", len(c.Certs), maxCerts)
	case slices.Contains(c.Certs, ""):
		return bad("certs holds an empty entry; name a PEM file, or a directory with fullchain.pem and privkey.pem")
	}
	if c.RedirectListen != "" {
		if _, _, err := net.SplitHostPort(c.RedirectListen); err != nil {
			return bad("redirect_listen is %q, want host:port such as 0.0.0.0:80: %w", c.RedirectListen, err)
		}
	}
	if c.Orders() {
		return c.validateACME(bad)
	}
	return nil
}

func (c Config) validateACME(bad func(string, ...any) error) error {
	if !c.ACMEAcceptTOS {
		return bad("acme_accept_tos must be true to get certificates from %s; read its terms first", c.ACMEDirectory)
	}
	if len(c.ACMEDomains) > maxACMEDomains {
		return bad("acme_domains holds %d names, at most %d", len(c.ACMEDomains), maxACMEDomains)
	}
	for _, d := range c.ACMEDomains {
		if !domainName(d) {
			return bad("acme_domains holds %q, want lower-case names such as node.example.org (xn--… for others than "+
				"ASCII), no address and no *", d)
		}
	}
	if u, err := url.Parse(c.ACMEDirectory); err != nil || u.Scheme != "https" || u.Host == "" {
		return bad("acme_directory is %q, want an https URL", c.ACMEDirectory)
	}
	if c.ACMEEmail != "" {
		if a, err := mail.ParseAddress(c.ACMEEmail); err != nil || a.Address != c.ACMEEmail {
			return bad("acme_email is %q, want an address such as you@example.org", c.ACMEEmail)
		}
	}
	return nil
}

// domainName reports whether an authority can sign the name s: at least two labels
// of lower-case ASCII, and the last label is not a number.
func domainName(s string) bool {
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || l[0] == '-' ||
			l[len(l)-1] == '-' {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && len(s) <= 253 && strings.Trim(last, "0123456789") != ""
}
