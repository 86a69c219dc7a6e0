package hosts

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/site"
	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// The bounds of a configuration.
const (
	MaxSites       = 1 << 14 // entries of gateway.sites
	maxAliases     = 64      // of a site
	maxSubdomained = 64      // entries of gateway.subdomain_hosts
)

// localhost has hosts below it without being listed, as browsers resolve them.
const localhost = "localhost"

// Config says which hosts are websites.
// node/config/keys.txt says what each key means.
type Config struct {
	SubdomainHosts []string        `koanf:"subdomain_hosts" hot:"true"`
	DNSLink        bool            `koanf:"dnslink" hot:"true"`
	Sites          map[string]Site `koanf:"sites" hot:"true"` // at most MaxSites, by name
}

// Site is a website with its own domains.
type Site struct {
	Domain    string   `koanf:"domain"`
	Aliases   []string `koanf:"aliases"` // other domains of it
	Key       string   `koanf:"key"`     // address or name, with or without a path
	CleanURLs bool     `koanf:"clean_urls"`
}

// Validate returns bad_request and names the first key with an invalid value.
func (c Config) Validate() error {
	_, err := newTable(c)
	return err
}

// table holds the hosts of a configuration. It is immutable.
type table struct {
	sites    map[string]*site.Site // by domain
	gateways []string              // hosts with label hosts below them, the longest first
	whole    []api.Site            // those of sites without a path below their key; URL is the domain
	dnslink  bool
}

// newTable returns the table of a configuration. Its error is that of Validate.
func newTable(c Config) (*table, error) {
	t := &table{sites: make(map[string]*site.Site, len(c.Sites)), gateways: []string{localhost}, dnslink: c.DNSLink}
	if len(c.SubdomainHosts) > maxSubdomained {
		return nil, status.Errorf(status.BadRequest, "gateway.subdomain_hosts has %d hosts, at most %d are possible",
			len(c.SubdomainHosts), maxSubdomained)
	}
	for _, h := range c.SubdomainHosts {
		host, ok := domain(h)
		if !ok {
			return nil, status.Errorf(status.BadRequest,
				"gateway.subdomain_hosts contains %.80q. Set it to host names without scheme, port or *", h)
		}
		if !slices.Contains(t.gateways, host) {
			t.gateways = append(t.gateways, host)
		}
	}
	slices.SortStableFunc(t.gateways, func(a, b string) int { return len(b) - len(a) })
	if len(c.Sites) > MaxSites {
		return nil, status.Errorf(status.BadRequest, "gateway.sites has %d entries, at most %d are possible",
			len(c.Sites), MaxSites)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sites)) {
		if err := t.add(name, c.Sites[name]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// add adds the domains of a site.
func (t *table) add(name string, s Site) error {
	key := "gateway.sites." + name
	if err := exchange.CheckEntryName("gateway.sites", name); err != nil {
		return err
	}
	if len(s.Aliases) > maxAliases {
		return status.Errorf(status.BadRequest, "%s.aliases has %d domains, at most %d are possible",
			key, len(s.Aliases), maxAliases)
	}
	served, err := parseKey(key+".key", s.Key)
	if err != nil {
		return err
	}
	served.CleanURLs = s.CleanURLs
	for i, text := range append([]string{s.Domain}, s.Aliases...) {
		host, ok := domain(text)
		which := key + ".domain"
		if i > 0 {
			which = key + ".aliases"
		}
		switch {
		case !ok:
			return status.Errorf(status.BadRequest,
				"%s is %.80q. Set it to a domain such as www.example.org, without scheme and port", which, text)
		case t.sites[host] != nil:
			return status.Errorf(status.BadRequest, "%s is %s, which another entry of gateway.sites has", which, host)
		case t.own(host):
			return status.Errorf(status.BadRequest, "%s is %s, a host of the gateway (gateway.subdomain_hosts)",
				which, host)
		}
		if t.sites[host] = served; i == 0 && len(served.Path) == 0 {
			t.whole = append(t.whole, api.Site{Key: served.Key.String(), URL: host})
		}
	}
	return nil
}

// own reports whether a host is one of the gateway's own, or a label host below one.
func (t *table) own(host string) bool {
	for _, g := range t.gateways {
		if host == g {
			return true
		}
		if _, ok, _ := site.ParseHost(host, g); ok {
			return true
		}
	}
	return false
}

// parseKey parses the key of a site.
func parseKey(key, text string) (*site.Site, error) {
	if err := exchange.CheckContentKey(key, text); err != nil {
		return nil, err
	}
	s, ok := siteOf(text)
	if !ok {
		return nil, status.Errorf(status.BadRequest,
			"%s is %.80q. Set it to the address (b3:…) or the name (LABEL.ZONE) of a directory", key, text)
	}
	return s, nil
}

// siteOf returns the site of an address or a name with or without a path. ok is false for a text that is neither.
func siteOf(text string) (s *site.Site, ok bool) {
	if canonical, err := address.Canonical(text); err == nil {
		text = canonical
	}
	first, path, _ := strings.Cut(text, "/")
	s = &site.Site{Moves: true}
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "":
		case ".", "..":
			return nil, false
		default:
			s.Path = append(s.Path, part)
		}
	}
	if root, err := b3.Parse(first); err == nil {
		s.Key = site.OfRoot(root)
		return s, true
	}
	if strings.HasPrefix(first, "b3:") || !strings.Contains(strings.Trim(first, "."), ".") {
		return nil, false
	}
	s.Key.Name = site.OfName(first).Name
	return s, true
}

// profile brings domains into the form in which browsers send them.
var profile = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.BidiRule(),
	idna.VerifyDNSLength(true))

// domain returns a domain in the form in which browsers send it. ok is false for a text that is none: an address of a
// machine, or with characters that no host has.
func domain(text string) (host string, ok bool) {
	host, err := profile.ToASCII(strings.TrimSuffix(text, "."))
	return host, err == nil && isDomain(host)
}

// isDomain reports whether a host in lower case is a domain: labels of the characters of hosts, and no address.
func isDomain(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	label := 0
	for i := range len(host) {
		switch c := host[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			if label++; label > 63 {
				return false
			}
		default:
			return false
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return label > 0 && strings.Trim(last, "0123456789") != "" && !isIP(host)
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || net.ParseIP(host) != nil
}
