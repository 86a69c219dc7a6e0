package website

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/internal/ipgroup"
	"allium/node/doctor"
)

// printsRecords says which command prints the records of a domain.
func printsRecords(domain string) string { return "`allium name link " + domain + "` prints them all" }

// addressRecord says which record leads to the node, as far as one of its addresses is known.
func (e *exam) addressRecord() string {
	if len(e.own) == 0 {
		return fmt.Sprintf("add the record `%s. IN A ADDRESS` with the public address of the server", e.Domain)
	}
	return fmt.Sprintf("add the record `%s. IN %s %s`", e.Domain, RecordType(e.own[0]), e.own[0])
}

// RecordType returns the type of the DNS record of an address: A or AAAA.
func RecordType(ip netip.Addr) string {
	if ip.Is6() {
		return "AAAA"
	}
	return "A"
}

// askOther helps where a DNS server fails.
const askOther = "check the name servers of the zone, and ask another server (--dns 1.1.1.1)"

// lookUp asks for the addresses of the domain.
func (e *exam) lookUp(ctx context.Context) {
	const impact = "nobody finds the website"
	ctx, cancel := context.WithTimeout(ctx, lookupWait)
	defer cancel()
	e.own = e.publicAddrs(ctx)
	addrs, err := e.DNS.LookupNetIP(ctx, "ip", e.Domain+".")
	for _, ip := range addrs {
		if ip = ip.Unmap(); !slices.Contains(e.addrs, ip) {
			e.addrs = append(e.addrs, ip)
		}
	}
	var dns *net.DNSError
	switch {
	case err == nil && len(e.addrs) > 0:
		e.ok(StepDNS, "%s has the address %s", e.Domain, join(e.addrs))
	case err == nil || errors.As(err, &dns) && dns.IsNotFound:
		e.set(StepDNS, doctor.Error, impact, e.addressRecord()+"; "+printsRecords(e.Domain),
			"the DNS has no A and no AAAA record of %s", e.Domain)
	case ctx.Err() != nil || errors.As(err, &dns) && dns.IsTimeout:
		e.set(StepDNS, doctor.Error, impact, askOther,
			"the DNS did not answer for %s within %s", e.Domain, lookupWait)
	default:
		e.set(StepDNS, doctor.Error, impact, askOther,
			"the DNS failed for %s: %s", e.Domain, printed(err))
	}
}

// publicAddrs returns the public addresses of the node that runs, and of this machine.
func (e *exam) publicAddrs(ctx context.Context) (all []netip.Addr) {
	if e.Node != nil {
		if r, err := e.Node.Reach(ctx); err == nil {
			all = PublicAddrs(r)
		}
	}
	for _, p := range e.Own {
		if ip := p.Addr().Unmap(); ipgroup.Public(ip) && !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	return all
}

// address compares the addresses of the domain with those of the node.
func (e *exam) address(context.Context) {
	var ours, private, strange []netip.Addr
	for _, ip := range e.addrs {
		switch {
		case slices.Contains(e.own, ip):
			ours = append(ours, ip)
		case !ipgroup.Public(ip):
			private = append(private, ip)
		default:
			strange = append(strange, ip)
		}
	}
	switch {
	case len(private) > 0:
		e.set(StepAddress, doctor.Warning, "visitors from elsewhere on the Internet do not get here",
			"give the domain a public address of the node; "+printsRecords(e.Domain),
			"%s is no address of the Internet", join(private))
	case len(strange) == 0:
		e.ok(StepAddress, "%s is this node's", join(ours))
	case len(e.own) == 0:
		e.set(StepAddress, doctor.Note, "it may be another server's",
			"start the node, or ask on its machine: `allium doctor reach` there says its addresses",
			"%s is a public address; which ones are the node's is not known here", join(strange))
	case len(ours) > 0:
		e.set(StepAddress, doctor.Warning, "some visitors get to another server",
			fmt.Sprintf("remove the record of %s, unless a proxy of yours is there", join(strange)),
			"%s is this node's, and %s is not", join(ours), join(strange))
	default:
		e.set(StepAddress, doctor.Warning, "visitors get to another server",
			e.addressRecord()+" in its place, unless a proxy or a router of yours is there; "+printsRecords(e.Domain),
			"%s is none of this node's addresses, which are %s", join(strange), join(e.own))
	}
}

// at returns an address with the port.
func (e *exam) at(ip netip.Addr) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(e.Port))
}

// port connects to each address.
func (e *exam) port(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, portWait)
	defer cancel()
	addrs := e.addrs[:min(len(e.addrs), maxAddrs)]
	errs := make([]error, len(addrs))
	var dials sync.WaitGroup
	for i, ip := range addrs {
		dials.Go(func() {
			conn, err := e.Dial(ctx, "tcp", e.at(ip))
			if errs[i] = err; err == nil {
				_ = conn.Close() // it was only tried
			}
		})
	}
	dials.Wait()
	var shut []string
	for i, ip := range addrs {
		if errs[i] == nil {
			e.reachable = append(e.reachable, ip)
		} else {
			shut = append(shut, fmt.Sprintf("%s: %s", e.at(ip), doctor.DialWords(errs[i])))
		}
	}
	fix := fmt.Sprintf("let the gateway listen there (gateway.listen = \"0.0.0.0:%d\"), open TCP %d in the firewall, "+
		"and forward it in the router", e.Port, e.Port)
	switch {
	case len(shut) == 0:
		e.ok(StepPort, "port %d answers at %s", e.Port, join(e.reachable))
	case len(e.reachable) == 0:
		e.set(StepPort, doctor.Error, "browsers do not connect", fix, "nothing answers at %s", strings.Join(shut, ", "))
	default:
		e.set(StepPort, doctor.Warning, "visitors wait, and some do not connect",
			fix+"; or remove the record of the address that does not answer",
			"port %d answers at %s, and not at %s", e.Port, join(e.reachable), strings.Join(shut, ", "))
	}
}

// addrOf returns the public IP address of an address of a node.
func addrOf(a api.ReachAddr) (netip.Addr, bool) {
	m, err := ma.NewMultiaddr(a.Addr)
	if err != nil || a.Via == "relay" {
		return netip.Addr{}, false
	}
	ip, ok := ipgroup.IP(m)
	return ip, ok && ipgroup.Public(ip)
}

// PublicAddrs returns the public addresses of a node, those first that peers have confirmed.
func PublicAddrs(r api.Reach) (all []netip.Addr) {
	for _, confirmed := range []bool{true, false} {
		for _, a := range r.Addrs {
			ip, ok := addrOf(a)
			if ok && (a.State == api.ReachConfirmed) == confirmed && !slices.Contains(all, ip) {
				all = append(all, ip)
			}
		}
	}
	return all
}
func join(all []netip.Addr) string {
	words := make([]string, len(all))
	for i, ip := range all {
		words[i] = ip.String()
	}
	return strings.Join(words, ", ")
}
