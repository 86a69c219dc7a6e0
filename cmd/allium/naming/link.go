package naming

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"strings"

	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/node/website"
	"allium/protocols/address"
	"allium/protocols/name"
	"allium/resolver/names/dnslink"
)

// Link has the DNS records that make a domain a website.
type Link struct {
	Domain string `json:"domain"` // of the TXT record, without the dot at its end
	Text   string `json:"text"`   // of the TXT record

	// Records are all of them, that one included. Missing: no other is known.
	Records []Record `json:"records,omitempty"`

	hints []string // for people, each a line
}

// Record is a DNS record.
type Record struct {
	Name  string `json:"name"` // without the dot at its end
	Type  string `json:"type"` // TXT, A or AAAA
	Value string `json:"value"`
}

// Node has the answers of a running node from which a link is made.
type Node interface {
	ID(ctx context.Context) (api.ID, error)
	Reach(ctx context.Context) (api.Reach, error)
	ExpandName(ctx context.Context, text string) (string, error)
	OwnNames(ctx context.Context) iter.Seq2[api.OwnName, error]
}

// someDomain stands for the domain if none is given.
const someDomain = "example.org"

// maxAddrs bounds the addresses that get a record.
const maxAddrs = 4

// LinkOf returns the records that link a domain to a key, an address or a name, with or without a path. If domain
// is empty, the key may be the domain, which is linked to the only name that the node publishes.
func LinkOf(ctx context.Context, n Node, key, domain string) (Link, error) {
	text, err := linkText(ctx, n, key)
	if own, ok := dnslink.Domain(key); err != nil && domain == "" && ok {
		domain = own
		text, err = onlyName(ctx, n, own)
	}
	if err != nil {
		return Link{}, err
	}
	domain = strings.TrimSuffix(cmp.Or(domain, someDomain), ".")
	l := Link{Domain: "_dnslink." + domain, Text: "dnslink=" + text}
	l.addAddresses(ctx, n, domain)
	return l, nil
}

// linkText returns the path of a link to a key.
func linkText(ctx context.Context, n Node, key string) (string, error) {
	if full, ok := address.Digits(key); ok {
		key = full
	}
	if strings.HasPrefix(key, "b3:") {
		_, err := name.ParseValue(key)
		return "/b3/" + key, err
	}
	label, path, _ := strings.Cut(key, "/")
	full, err := n.ExpandName(ctx, label)
	return strings.TrimSuffix("/n/"+full+"/"+path, "/"), err
}

// onlyName returns the path of a link to the only name that the node publishes.
func onlyName(ctx context.Context, n Node, domain string) (string, error) {
	var names []string
	for own, err := range n.OwnNames(ctx) {
		if err != nil {
			return "", err
		}
		if own.Value != "" {
			names = append(names, own.Name)
		}
	}
	if len(names) == 1 {
		return "/n/" + names[0], nil
	}
	return "", failure.NewUsage("say which one: `allium name link NAME --domain "+domain+"`",
		"this node publishes %d names, so it is not known what %s shall stand for", len(names), domain)
}

// addAddresses adds the records that lead to the node, and says what else may be needed.
func (l *Link) addAddresses(ctx context.Context, n Node, domain string) {
	var addrs []netip.Addr
	if r, err := n.Reach(ctx); err == nil {
		addrs = website.PublicAddrs(r)
	}
	addrs = addrs[:min(len(addrs), maxAddrs)]
	if len(addrs) == 0 {
		l.hint("for browsers, %s also needs an A or AAAA record with the public address of this node; none is known "+
			"(`allium doctor reach`)", domain)
	} else {
		l.Records = append(l.Records, Record{l.Domain, "TXT", l.Text})
	}
	for _, ip := range addrs {
		l.Records = append(l.Records, Record{domain, website.RecordType(ip), ip.String()})
	}
	if host := gatewayHost(ctx, n); host != "" && host != domain && len(addrs) > 0 {
		l.hint("or, in place of A and AAAA: %s. IN CNAME %s.", domain, host)
	}
	l.hint("if %s or a domain above it has CAA records, one must allow the authority: IN CAA 0 issue %q", domain,
		"letsencrypt.org")
}

func (l *Link) hint(format string, args ...any) {
	l.hints = append(l.hints, fmt.Sprintf(format, args...))
}

// gatewayHost returns the domain of the node's own gateway, or "".
func gatewayHost(ctx context.Context, n Node) string {
	id, err := n.ID(ctx)
	if err != nil {
		return ""
	}
	u, err := url.Parse(id.Gateway)
	if err != nil || u.Scheme != "https" {
		return ""
	}
	host, _ := dnslink.Domain(u.Hostname())
	return host
}

// Zone returns the records as a file of a DNS zone has them. If quiet, hints are left out.
func (l Link) Zone(quiet bool) string {
	lines := []string{fmt.Sprintf("%s. IN TXT %q", l.Domain, l.Text)}
	for _, r := range l.Records {
		if r.Type != "TXT" {
			lines = append(lines, fmt.Sprintf("%s. IN %s %s", r.Name, r.Type, r.Value))
		}
	}
	if !quiet {
		for _, h := range l.hints {
			lines = append(lines, "; "+h)
		}
	}
	return strings.Join(lines, "\n")
}
