package dnslink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"allium/internal/limits"
	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
)

// Timeout bounds one lookup, the wait for a place included.
const Timeout = time.Second

// The bounds of the lookups.
const (
	lookups   = 8
	waiting   = 64
	maxTexts  = 64  // TXT records of one domain; more are refused
	maxDomain = 240 // bytes of a domain, with room for the prefix
	linkLabel = "_dnslink."
	linkKey   = "dnslink="
)

// TXT asks for the TXT records of a domain; see [net.Resolver.LookupTXT].
type TXT interface {
	LookupTXT(ctx context.Context, domain string) ([]string, error)
}

// Link is the address, the name or the other domain that a domain stands for.
type Link struct {
	Domain string // that was asked, in lower case and ASCII
	Text   string // the path behind "dnslink="

	Root b3.Root   // zero unless it is an address
	Name name.Name // zero unless it is a name with the key of its zone
	Next string    // empty unless it is another domain
	Path string    // below that, without slashes at its ends
}

// Resolver asks the DNS. It is safe for concurrent use.
type Resolver struct {
	txt  TXT
	gate *limits.Gate
}

// New returns a resolver. txt may be nil for that of the system, and registry may be nil.
func New(txt TXT, registry *limits.Registry) *Resolver {
	if txt == nil {
		txt = net.DefaultResolver
	}
	return &Resolver{txt, registry.NewGate(limits.Spec{
		Name: "names.dns_lookups", Path: "names that are domains → DNS",
		Policy: "64 wait, the rest are refused with busy",
	}, lookups, waiting)}
}

// Domain returns a domain in its one form. ok is false for text that may not be asked for: what is no
// domain of two labels or more, and a name with the key of a zone, misspelled or not.
func Domain(text string) (domain string, ok bool) {
	last := text[strings.LastIndexByte(text, '.')+1:]
	if strings.HasPrefix(last, "k51") || strings.HasPrefix(last, "12d3") || strings.HasPrefix(last, "12D3") {
		return "", false
	}
	domain, err := ascii(text)
	return domain, err == nil
}

// profile brings domains into one form, as browsers do: hyphens may be anywhere. It also checks the lengths
// of labels. It admits every ASCII character, so ascii checks them.
var profile = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.BidiRule(),
	idna.VerifyDNSLength(true))

// notInHost reports whether r is none of the characters of host names in their ASCII form. Browsers and the
// DNS also know names with underscores.
func notInHost(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// ascii returns a domain in its one form.
func ascii(text string) (string, error) {
	domain, err := profile.ToASCII(name.FoldSharpS(strings.TrimSuffix(text, ".")))
	if i := strings.IndexFunc(domain, notInHost); err == nil && i >= 0 {
		err = fmt.Errorf("it has the character %q", domain[i])
	}
	switch {
	case err != nil:
		return "", status.Errorf(status.BadAddress, "%.80q is no domain: %w", text, err)
	case len(domain) > maxDomain || !strings.Contains(domain, ".") || net.ParseIP(domain) != nil:
		return "", status.Errorf(status.BadAddress, "%.80q is no domain; write one such as docs.example.org", text)
	}
	return domain, nil
}

// Lookup returns what a domain stands for. The error is bad_address for no domain; not_found if there is
// no such domain or it has no link; conflict for several links; bad_request for a link that cannot be
// parsed, and for too many records; timeout, busy, upstream for a failure of the DNS, or ctx's.
func (r *Resolver) Lookup(ctx context.Context, text string) (Link, error) {
	domain, err := ascii(text)
	if err != nil {
		return Link{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout,
		status.Errorf(status.Timeout, "the DNS did not answer for %s within %s", domain, Timeout))
	defer cancel()
	release, err := r.gate.Acquire(ctx)
	if err != nil {
		return Link{}, err
	}
	defer release()
	texts, err := r.txt.LookupTXT(ctx, linkLabel+domain+".")
	if err != nil {
		return Link{}, failure(ctx, domain, err)
	}
	return choose(domain, texts)
}

// failure returns the error of a lookup with its outcome.
func failure(ctx context.Context, domain string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var of *net.DNSError
	switch {
	case errors.As(err, &of) && of.IsNotFound:
		return noLink(domain)
	case errors.As(err, &of) && of.IsTimeout:
		return status.Errorf(status.Timeout, "the DNS did not answer for %s in time", domain)
	}
	return status.Errorf(status.Upstream, "the DNS failed for %s: %w", domain, err)
}

func noLink(domain string) error {
	return status.Errorf(status.NotFound, "the DNS has no link for %s: no TXT record of %s%s begins with %s",
		domain, linkLabel, domain, linkKey)
}

// choose returns the only link among TXT records.
func choose(domain string, texts []string) (Link, error) {
	if len(texts) > maxTexts {
		return Link{}, status.Errorf(status.BadRequest, "%s%s has %d TXT records, more than %d", linkLabel, domain,
			len(texts), maxTexts)
	}
	found := ""
	for _, text := range texts {
		switch link, ok := strings.CutPrefix(text, linkKey); {
		case !ok:
		case found != "" && found != link:
			return Link{}, status.Errorf(status.Conflict,
				"%s has several links, so none is taken; its owner must remove all but one", domain)
		default:
			found = link
		}
	}
	if found == "" {
		return Link{}, noLink(domain)
	}
	l, err := parse(found)
	if err != nil {
		return Link{}, status.Errorf(status.BadRequest, "the link of %s is %.80q: %w", domain, found, err)
	}
	l.Domain = domain
	return l, nil
}

// parse parses what follows "dnslink=".
func parse(text string) (l Link, err error) {
	if len(text) > name.MaxValue {
		return l, status.Errorf(status.BadRequest, "it has more than %d bytes", name.MaxValue)
	}
	l.Text = text
	if rest, ok := strings.CutPrefix(text, "/b3/"); ok {
		if key, ok := address.Digits(rest); ok {
			rest = key
		}
		value, err := name.ParseValue(strings.TrimRight(rest, "/"))
		if err != nil {
			return Link{}, err
		}
		root, path, ok := value.Address()
		if !ok {
			return Link{}, errors.New("/b3/ is not followed by an address")
		}
		l.Root, l.Path = root, strings.Trim(path, "/")
		return l, nil
	}
	rest, ok := strings.CutPrefix(text, "/n/")
	if !ok {
		return Link{}, errors.New("it begins neither with /b3/ nor with /n/")
	}
	target, path, _ := strings.Cut(rest, "/")
	l.Path = strings.Trim(path, "/")
	if l.Name, err = name.Parse(target); err == nil {
		return l, nil
	}
	if l.Next, ok = Domain(target); !ok {
		return Link{}, err
	}
	return l, nil
}
