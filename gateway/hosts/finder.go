package hosts

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"allium/gateway/api"
	"allium/gateway/site"
	"allium/internal/limits"
)

// Finder finds websites by hosts. Its methods may be called from any goroutine. A nil *Finder knows the hosts of the
// default configuration.
type Finder struct {
	table   atomic.Pointer[table]
	domains *domains
	names   *remembered
}

// Found says what a host is. The zero Found is a host of the node.
type Found struct {
	Site *site.Site // nil: the host is the node's own
	// Gateway means that Site is nil and that roots and names have hosts below this one.
	Gateway bool
}

// New returns a Finder. cfg must be valid. dns may be nil: then no domain has a link.
func New(cfg Config, dns DNS, registry *limits.Registry) (*Finder, error) {
	f := &Finder{}
	var err error
	if f.domains, err = newDomains(dns, registry); err != nil {
		return nil, err
	}
	if f.names, err = newRemembered(registry); err != nil {
		return nil, err
	}
	t, err := newTable(cfg)
	if err != nil {
		return nil, err
	}
	f.table.Store(t)
	return f, nil
}

// Reconfigure applies a valid configuration at once.
func (f *Finder) Reconfigure(cfg Config) {
	if t, err := newTable(cfg); err == nil {
		f.table.Store(t)
	}
}

// Named reports whether gateway.sites names a domain. Domains that are linked by the DNS alone do not count:
// anybody can link one.
func (f *Finder) Named(_ context.Context, domain string) bool {
	return f.table.Load().sites[domain] != nil
}

// Origins returns the URLs below whose hosts roots and names have one of their own, for a gateway with the URL base:
// those of the configuration, and localhost for browsers of this machine.
func (f *Finder) Origins(base string) (all []string) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil
	}
	for _, host := range f.table.Load().gateways {
		if host == localhost && (u.Scheme != "http" || !here(u)) {
			continue
		}
		if port := u.Port(); port != "" {
			host = net.JoinHostPort(host, port)
		}
		all = append(all, u.Scheme+"://"+host)
	}
	return all
}

// Sites returns the websites of the configuration that are all of what an address or a name stands for, without their
// aliases, for a gateway with the URL base. A gateway of this machine alone has a proxy before it, with a port of its
// own.
func (f *Finder) Sites(base string) []api.Site {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil
	}
	port := ":" + u.Port()
	if port == ":" || u.Scheme == "https" && port == ":443" || u.Scheme == "http" && port == ":80" || here(u) {
		port = ""
	}
	all := slices.Clone(f.table.Load().whole)
	for i := range all {
		all[i].URL = u.Scheme + "://" + all[i].URL + port + "/"
	}
	return all
}

// here reports whether only this machine reaches the host of a URL.
func here(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == localhost || err == nil && ip.IsLoopback()
}

// defaults is the table of the default configuration.
var defaults = &table{gateways: []string{localhost}}

// Find returns what a header Host names. The port, one dot at the end and the case of letters do not count. The error
// is bad_address for a label host that has no form. It does not wait.
func (f *Finder) Find(header string) (Found, error) {
	t := defaults
	if f != nil {
		t = f.table.Load()
	}
	host := hostOf(header)
	if s := t.sites[host]; s != nil {
		return Found{Site: s}, nil
	}
	for _, g := range t.gateways {
		if host == g {
			return Found{Gateway: true}, nil
		}
		if !strings.HasSuffix(host, g) {
			continue
		}
		if k, ok, err := site.ParseHost(host, g); ok {
			return Found{Site: &site.Site{Key: k}}, err
		}
		if len(host) > len(g) && host[len(host)-len(g)-1] == '.' {
			return Found{}, nil // below the gateway, and so its own
		}
	}
	if t.dnslink && strings.Contains(host, ".") && isDomain(host) {
		return Found{Site: &site.Site{Domain: host}}, nil
	}
	return Found{}, nil
}

// hostOf returns the host of a header Host in lower case, without port and without a dot at its end.
func hostOf(header string) string {
	host := header
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.Trim(host[i+1:], "0123456789") == "" {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
