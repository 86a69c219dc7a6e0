package text

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node"
	"allium/protocols/status"
)

// Peer is a connected peer: id, direction, transport, round-trip time, age of the
// connection, bucket, address and agent. If quiet, it is only the id.
func Peer(p api.Peer, quiet bool) string {
	if quiet {
		return p.ID
	}
	rtt := "-"
	if p.RTTMS > 0 {
		rtt = fmt.Sprintf("%.1f ms", p.RTTMS)
	}
	bucket := "-"
	if p.Bucket != nil {
		bucket = fmt.Sprintf("bucket %d", *p.Bucket)
	}
	age := (time.Duration(p.AgeMS) * time.Millisecond).Round(time.Second)
	return fmt.Sprintf("%s  %-3s  %-5s  %9s  %8s  %-9s  %s  %s",
		p.ID, p.Direction, p.Transport, rtt, age, bucket, p.Addr, printable.Name(p.Agent))
}

// Provider is the id of a provider and, unless quiet, how sure its claim is, its
// round-trip time and region, and its addresses.
func Provider(p api.Provider, quiet bool) string {
	if quiet {
		return p.ID
	}
	head := p.ID
	switch p.Source {
	case "gossip":
		head += "  by gossip"
	case "connected":
		head += "  connected"
	}
	if p.Confidence != "" {
		head += "  " + string(p.Confidence)
	}
	if p.RTTMS > 0 {
		head += fmt.Sprintf("  %.1f ms", p.RTTMS)
	}
	if p.Region != "" {
		head += "  " + printable.Name(p.Region)
	}
	return strings.Join(append([]string{head}, p.Addrs...), "\n  ")
}

// Resolved is an object and its providers; if quiet, only their ids.
func Resolved(r api.Resolved, quiet bool) string {
	var lines []string
	if !quiet {
		age, ttl := time.Duration(r.AgeMS)*time.Millisecond, time.Duration(r.TTLMS)*time.Millisecond
		for _, rec := range r.Chain {
			lines = append(lines, record(rec))
		}
		if r.Value != "" {
			return strings.Join(append(lines, printable.Name(r.Value)), "\n")
		}
		note := ""
		if r.Stale {
			note = ", stale"
		}
		lines = append(lines, fmt.Sprintf("%s  from %s, %s old, remembered for %s, %s%s",
			target(r), r.Source, age, ttl, r.Confidence, note))
	} else if len(r.Chain) > 0 {
		return cmp.Or(printable.Name(r.Value), target(r))
	}
	for _, p := range r.Providers {
		lines = append(lines, Provider(p, quiet))
	}
	return strings.Join(lines, "\n")
}

// target is the address that a name stands for, on one line.
func target(r api.Resolved) string {
	return printable.Name(strings.TrimSuffix(r.Target.String()+"/"+r.Path, "/"))
}

// record is a line that shows the record of a name, and where its zone was found.
func record(r api.Record) string {
	if r.Found == "dns" {
		return fmt.Sprintf("%s  %s, by the DNS, which nobody signs", r.Name, printable.Name(r.Value))
	}
	line := fmt.Sprintf("%s  number %d, until %s", r.Name, r.Seq, r.NotAfter.UTC().Format(time.RFC3339))
	if r.Short != "" {
		where := "a petname"
		if r.Found == "map" {
			where = "the name of a zone map"
		}
		line += fmt.Sprintf(", %s is %s", r.Short, where)
	}
	return line
}

// Trace is a table of the steps of a lookup that found so many providers.
// Providers that no step brought come from records or announcements of the node.
func Trace(t api.Trace, found int, quiet bool) string {
	const format = "%10s  %10s  %3s  %-52s  %-5s  %s\n"
	var b strings.Builder
	if !quiet && found > 0 {
		b.WriteByte('\n')
	}
	if !quiet && len(t.Steps) > 0 {
		fmt.Fprintf(&b, format, "start", "took", "hop", "peer", "kind", "outcome")
	}
	for _, s := range t.Steps {
		kind, outcome := "probe", s.Outcome
		if s.Hedge {
			kind = "hedge"
		}
		if s.Outcome == status.OK.String() {
			outcome = fmt.Sprintf("ok: %d closer, %s", s.Closer, Plural(s.Providers, "provider"))
		}
		fmt.Fprintf(&b, format, milliseconds(s.StartMS), milliseconds(s.TookMS), fmt.Sprint(s.Hop), s.Peer, kind, outcome)
		found -= s.Providers
	}
	if quiet {
		return strings.TrimSuffix(b.String(), "\n")
	}
	fmt.Fprintf(&b, "ended %s after %s: %s, %s, %s",
		t.End, milliseconds(t.TookMS), Plural(t.Hops, "hop"), Plural(t.Probes, "probe"), Plural(t.Hedges, "hedge"))
	if found > 0 {
		fmt.Fprintf(&b, "\n%s by records or announcements that this node holds; --fresh leaves them out",
			Plural(found, "provider"))
	}
	return b.String()
}

// Seeds is a table of the seeds at the time now. If quiet, it is only their ids.
func Seeds(list api.Seeds, now time.Time, quiet bool) string {
	const format = "%-52s  %-8s  %-9s  %-14s  %-10s  %s\n"
	var b strings.Builder
	if !quiet && len(list.Seeds) > 0 {
		fmt.Fprintf(&b, format, "seed", "source", "connected", "last success", "expires", "gave")
	}
	for _, s := range list.Seeds {
		if quiet {
			fmt.Fprintln(&b, s.ID)
			continue
		}
		gave := "-"
		if !s.GaveAt.IsZero() {
			gave = Plural(len(s.Gave), "peer")
		}
		fmt.Fprintf(&b, format,
			s.ID, s.Source, yesNo(s.Connected), ago(s.LastSuccess, now), expiry(s.NotAfter, now), gave)
		if s.LastError != "" {
			fmt.Fprintf(&b, "  %s: %s\n", Plural(s.Tries, "try"), strings.Join(strings.Fields(s.LastError), " "))
		}
	}
	if quiet {
		return strings.TrimSuffix(b.String(), "\n")
	}
	if len(list.Seeds) == 0 {
		fmt.Fprintln(&b, "no seeds; name some in dht.bootstrap")
	}
	if m := list.Manifest; m != nil {
		if m.Signer != "" {
			fmt.Fprintf(&b, "manifest %d, signed by %s, until %s\n", m.Seq, m.Signer, m.NotAfter.UTC().Format(time.RFC3339))
		}
		if m.Error != "" {
			fmt.Fprintf(&b, "manifest: %s\n", m.Error)
		}
	}
	if list.Remembered > 0 {
		fmt.Fprintf(&b, "%s remembered for when no seed answers\n", Plural(list.Remembered, "peer"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// SignedSeeds is a seed manifest: who signed it, until when, and its addresses.
func SignedSeeds(s node.SignedSeeds) string {
	var b strings.Builder
	fmt.Fprintf(&b, "signed by  %s\nuntil      %s\nsequence   %d\nseeds      %d",
		s.Signer, s.NotAfter.Format(time.RFC3339), s.Seq, len(s.Seeds))
	for _, seed := range s.Seeds {
		for _, addr := range seed.Addrs {
			fmt.Fprintf(&b, "\n  %s/p2p/%s", addr, seed.ID)
		}
	}
	return b.String()
}
