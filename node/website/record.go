package website

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"allium/gateway/api"
	"allium/internal/printable"
	"allium/node/doctor"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/dnslink"
)

// record asks for the link of the domain, and resolves what it names.
func (e *exam) record(ctx context.Context) doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	prints := "`allium name link NAME --domain " + e.Domain + "` prints it"
	bad := func(fix, format string, args ...any) doctor.Finding {
		return found(StepRecord, doctor.Error, "nodes and gateways do not know what the domain stands for", fix, format,
			args...)
	}
	asked := dnslink.New(e.DNS, nil)
	var links []string
	for next := e.Domain; ; next = e.link.Next {
		link, err := asked.Lookup(ctx, next)
		switch o := status.Of(err); {
		case err != nil && len(links) > 0:
			return bad("name an address or a name in the last of them", "_dnslink.%s leads to %s: %s", e.Domain,
				shown(links), printed(err))
		case o == status.NotFound:
			return bad("add the TXT record of _dnslink."+e.Domain+"; "+prints,
				"the DNS has no TXT record of _dnslink.%s that begins with dnslink=", e.Domain)
		case o == status.Timeout || o == status.Upstream:
			return bad(askOther, "%s", printed(err))
		case err != nil:
			return bad("correct it: "+prints, "%s", printed(err))
		case slices.Contains(links, link.Text), len(links) == name.MaxSteps:
			return bad("name an address or a name in one of them", "_dnslink.%s leads in a circle, or too far: %s",
				e.Domain, shown(links))
		}
		links = append(links, link.Text)
		if e.link = link; link.Next == "" {
			return e.resolve(ctx, "_dnslink."+e.Domain+" names "+shown(links))
		}
	}
}

// shown returns the texts of links for a terminal.
func shown(links []string) string { return printable.Name(clip(strings.Join(links, ", "))) }

// resolve asks the node what the link names. seen says what the DNS has.
func (e *exam) resolve(ctx context.Context, seen string) doctor.Finding {
	e.key = e.link.Root.String()
	if e.link.Root.IsZero() {
		e.key = e.link.Name.String()
	}
	if e.link.Path != "" {
		e.key += "/" + e.link.Path
	}
	if e.Node == nil {
		return found(StepRecord, doctor.OK, "", "", "%s; no node runs that could resolve it", seen)
	}
	r, err := e.Node.Resolve(ctx, e.key, api.Query{})
	switch {
	case err != nil:
		return found(StepRecord, doctor.Error, "the website is not found",
			"publish the name (`allium name publish`), and see `allium resolve "+e.key+"`",
			"%s, which this node cannot resolve: %s", seen, printed(err))
	case r.Value != "":
		return found(StepRecord, doctor.Error, "there is no website",
			"publish an address for the name: `allium name publish`", "%s, which stands for text", seen)
	}
	e.root = e.page(ctx)
	if e.link.Root.IsZero() {
		seen += fmt.Sprintf(", which is %s", r.Target)
	}
	return found(StepRecord, doctor.OK, "", "", "%s", seen)
}

// page returns the object that GET / of the website should give: the file that the record names, or the index.html
// of the directory. It is zero if that is not known.
func (e *exam) page(ctx context.Context) b3.Root {
	st, err := e.Node.Stat(ctx, e.key)
	if err == nil && st.Kind == api.Directory {
		st, err = e.Node.Stat(ctx, e.key+"/index.html")
	}
	if err != nil {
		return b3.Root{}
	}
	return st.Root
}

// weighRecord makes a missing or bad record a note where the page comes from an object all the same, and a warning
// where it may be the gateway's own.
func (e *exam) weighRecord() {
	record, content := e.steps[StepRecord], e.steps[StepContent]
	if record.Severity != doctor.Error || e.key != "" || content.Severity != doctor.OK {
		return
	}
	record.Severity = doctor.Warning
	record.Impact = "other nodes do not know what the domain stands for, and the page may be the gateway's own"
	if !e.served.IsZero() {
		record.Severity = doctor.Note
		record.Impact = "other nodes do not know what the domain stands for; this one serves it all the same"
	}
	e.steps[StepRecord] = record
}
