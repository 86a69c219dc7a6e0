// Package website says which step from a domain to its website fails: its addresses in the DNS, whether they are the
// node's, the port, the certificate, the record that links it to a name, and the page.
//
// Each step has a time limit, and the record is looked up in parallel, so a diagnosis ends within 10 s. A step that
// cannot be made is skipped, and says why. Answers from outside are read up to bounds, and shown without control
// characters.
//
// One diagnosis, walked through: [Diagnose] looks up the addresses and compares them with those of the node and of this
// machine, connects to each, shakes hands with those that answer (certificate), and asks one of them for the page
// (content), whatever its certificate is. Meanwhile record follows the TXT records, and lets the node resolve what they
// name. A record that is missing is a note if the page is there without it.
package website

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/node/doctor"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/names/dnslink"
)

// The steps to a website, in the order in which a visitor takes them.
const (
	StepDNS         = "dns"
	StepAddress     = "address"
	StepPort        = "port"
	StepCertificate = "certificate"
	StepRecord      = "record"
	StepContent     = "content"
)

// The bounds of the steps. Together they keep a diagnosis within 10 s, because the record is looked up beside the
// others.
const (
	lookupWait  = 2 * time.Second // for the addresses; the record has dnslink.Timeout for each link
	portWait    = 2 * time.Second
	tlsWait     = 2 * time.Second
	contentWait = 2500 * time.Millisecond
	recordWait  = 5 * time.Second
	maxAddrs    = 4 // addresses that are dialled
)

// DNS asks the DNS. A [net.Resolver] is one.
type DNS interface {
	dnslink.TXT
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Node has the answers of a running node about a website.
type Node interface {
	Reach(ctx context.Context) (api.Reach, error)
	Resolve(ctx context.Context, key string, q api.Query) (api.Resolved, error)
	Stat(ctx context.Context, key string) (api.Stat, error)
}

// Deps are the website to examine and the ways to it.
type Deps struct {
	Domain string // as dnslink.Domain returns it
	Port   int
	DNS    DNS
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Roots  *x509.CertPool // that sign certificates; nil: those of the system
	Node   Node           // nil: none runs
	Own    []netip.Prefix // the addresses of this machine
	Now    func() time.Time
}

// This returns what a diagnosis of a website from this machine needs. server is the address of a DNS server, such
// as 1.1.1.1 or 127.0.0.1:5353; empty: that of the system. The error is bad_request for what is no domain, port or
// address.
func This(domain string, port int, server string, n Node) (Deps, error) {
	one, ok := dnslink.Domain(domain)
	switch {
	case !ok:
		return Deps{}, status.Errorf(status.BadRequest, "%.80q is no domain; write one such as www.example.org", domain)
	case port < 1 || port > 65535:
		return Deps{}, status.Errorf(status.BadRequest, "--port is %d, want 1 to 65535", port)
	}
	d := Deps{
		Domain: one, Port: port, DNS: net.DefaultResolver, Dial: (&net.Dialer{}).DialContext, Node: n, Now: time.Now,
	}
	d.Own, _ = doctor.ThisMachine().Interfaces() // without them the node alone knows addresses
	if server == "" {
		return d, nil
	}
	at, err := netip.ParseAddrPort(server)
	if err != nil {
		ip, err := netip.ParseAddr(server)
		if err != nil {
			return Deps{}, status.Errorf(status.BadRequest, "--dns is %.80q, want an address such as 1.1.1.1 or "+
				"[::1]:5353", server)
		}
		at = netip.AddrPortFrom(ip, 53)
	}
	d.DNS = &oneServer{at.String(), &net.Resolver{
		PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at.String())
		},
	}}
	return d, nil
}

// oneServer asks one DNS server, and names it in errors.
type oneServer struct {
	at string
	*net.Resolver
}

// LookupNetIP is that of [net.Resolver].
func (s *oneServer) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	addrs, err := s.Resolver.LookupNetIP(ctx, network, host)
	return addrs, s.named(err)
}

// LookupTXT is that of [net.Resolver].
func (s *oneServer) LookupTXT(ctx context.Context, host string) ([]string, error) {
	texts, err := s.Resolver.LookupTXT(ctx, host)
	return texts, s.named(err)
}

// named sets the server in an error, in place of that of the system.
func (s *oneServer) named(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		dns.Server = s.at
	}
	return err
}

// Report says which step to a website fails.
type Report struct {
	Domain  string           `json:"domain"`
	Worst   doctor.Severity  `json:"worst"` // of the steps
	Steps   []doctor.Finding `json:"steps"` // those that were made, in order; one that is ok has no impact and no fix
	Skipped []doctor.Skipped `json:"skipped"`
}

// exam is one diagnosis of a website, with what its steps have found.
type exam struct {
	Deps
	steps   map[string]doctor.Finding
	skipped map[string]string

	addrs     []netip.Addr // of the domain
	own       []netip.Addr // public ones of the node
	reachable []netip.Addr // of addrs, whose port answers
	link      dnslink.Link // the last one of the record
	key       string       // that the record names; empty: none
	root      b3.Root      // of the page at / that the record names, or zero
	served    b3.Root      // of the page at / that is served, or zero
}

// Diagnose takes each step of a visitor to a website, and says which one fails and what to do.
func Diagnose(ctx context.Context, d Deps) Report {
	e := &exam{Deps: d, steps: map[string]doctor.Finding{}, skipped: map[string]string{}}
	var record doctor.Finding
	var beside sync.WaitGroup
	beside.Go(func() { record = e.record(ctx) })
	e.visit(ctx)
	beside.Wait()
	e.steps[StepRecord] = record
	e.content(ctx)
	e.weighRecord()
	return e.report()
}

// visit takes the steps from the DNS to the certificate.
func (e *exam) visit(ctx context.Context) {
	if e.lookUp(ctx); len(e.addrs) == 0 {
		e.skip("the domain has no address", StepAddress, StepPort, StepCertificate)
		return
	}
	e.address(ctx)
	if e.port(ctx); len(e.reachable) == 0 {
		e.skip("no address answers", StepCertificate)
		return
	}
	e.certificate(ctx)
}

func (e *exam) set(step string, sev doctor.Severity, impact, fix, format string, args ...any) {
	e.steps[step] = found(step, sev, impact, fix, format, args...)
}

func found(step string, sev doctor.Severity, impact, fix, format string, args ...any) doctor.Finding {
	return doctor.Finding{Check: step, Severity: sev, Evidence: fmt.Sprintf(format, args...), Impact: impact, Fix: fix}
}

func (e *exam) ok(step, format string, args ...any) { e.set(step, doctor.OK, "", "", format, args...) }

func (e *exam) skip(why string, steps ...string) {
	for _, s := range steps {
		e.skipped[s] = why
	}
}

// report lists the steps in order.
func (e *exam) report() Report {
	r := Report{Domain: e.Domain, Worst: doctor.OK, Steps: []doctor.Finding{}, Skipped: []doctor.Skipped{}}
	for _, step := range []string{StepDNS, StepAddress, StepPort, StepCertificate, StepRecord, StepContent} {
		if f, ok := e.steps[step]; ok {
			r.Steps = append(r.Steps, f)
			if f.Severity.Worse(r.Worst) {
				r.Worst = f.Severity
			}
		} else {
			r.Skipped = append(r.Skipped, doctor.Skipped{Check: step, Why: e.skipped[step]})
		}
	}
	return r
}
