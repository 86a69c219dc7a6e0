package drawing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/limits"
	"allium/internal/printable"
	"allium/protocols/status"
)

// Why returns the record of a lookup as a tree of at most 100 columns. If quiet, it is only
// the ID and how it ended.
func Why(w api.Why, quiet bool) string {
	l := w.Lookup
	if quiet {
		return l.ID + "  " + endingOf(l.LookupHead)
	}
	var b strings.Builder
	writeHead(&b, l)
	Tree(&b, "", eventBranches(l))
	for _, line := range Fold(TimeSpent(l), Width, 0) {
		b.WriteString(line + "\n")
	}
	if o := l.Omitted; o != nil {
		fmt.Fprintf(&b, "left out: %s\n", leftOut(o))
	}
	if w.Film {
		fmt.Fprintf(&b, "its execution trace is kept: allium why %s --trace FILE\n", l.ID)
	}
	writeHeads(&b, "lookups that it led to:", w.Parts)
	writeHeads(&b, "other lookups:", w.Others)
	return strings.TrimSuffix(b.String(), "\n")
}

// writeHeads writes a line for each lookup below a title, and nothing for none.
func writeHeads(b *strings.Builder, title string, heads []api.LookupHead) {
	if len(heads) > 0 {
		b.WriteString("\n" + title + "\n")
	}
	for _, h := range heads {
		fmt.Fprintf(b, "  %s  %-9s  %s  %s\n", h.ID, h.Kind, term.Stamp(h.Start), endingOf(h))
	}
}

// writeHead writes what was looked up and how it ended.
func writeHead(b *strings.Builder, l api.Lookup) {
	about := "lookup " + l.ID + ": " + l.Kind + " " + l.Key
	if l.Parent != "" {
		about += ", part of lookup " + l.Parent
	}
	ended := term.Stamp(l.Start) + ": " + endingOf(l.LookupHead)
	if l.Callers > 1 {
		ended += fmt.Sprintf("; %d requests shared it", l.Callers)
	}
	for _, text := range []string{about, ended, l.Message} {
		if text == "" {
			continue
		}
		for _, line := range Fold(text, Width, 0) {
			b.WriteString(line + "\n")
		}
	}
}

// endingOf says how a lookup ended, and after which time.
func endingOf(h api.LookupHead) string {
	switch {
	case h.Running:
		return "running for " + term.Milliseconds(h.TookMS)
	case h.Outcome == status.OK.String():
		return "ok after " + term.Milliseconds(h.TookMS)
	}
	return "failed with " + h.Outcome + " after " + term.Milliseconds(h.TookMS)
}

// eventBranches returns the parts of a lookup in the order of time.
func eventBranches(l api.Lookup) []Branch {
	type event struct {
		at float64
		Branch
	}
	var all []event
	add := func(at float64, below []Branch, format string, args ...any) {
		text := fmt.Sprintf("%10s  ", term.Milliseconds(max(0, at))) + fmt.Sprintf(format, args...)
		all = append(all, event{at, Branch{Text: text, Below: below}})
	}
	for _, s := range l.Steps {
		add(s.AtMS, nil, "%s", stepText(s))
	}
	for _, s := range l.Searches {
		add(s.AtMS, probeBranches(s), "%s", searchText(s, l.Key))
	}
	for _, p := range l.Providers {
		add(p.FoundMS, spanBranches(p), "%s", providerBranch(p))
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var branches []Branch
	for _, e := range all {
		branches = append(branches, e.Branch)
	}
	if t := l.Tree; t != nil {
		branches = append(branches, treeBranch(t))
	}
	return branches
}

// sourceWords are the sources of a step for people.
var sourceWords = map[string]string{
	"memory": "memory of the node", "store": "store of the node", "partial": "part from an earlier fetch",
	"cache": "cache of earlier lookups", "named": "peers that the caller named",
	"served": "peer that served its directory", "gossip": "announcements by gossip", "dht": "DHT",
	"connected": "connected peers", "index": "peer that was asked",
	"permit": "place among the fetches", "dns": "DNS",
}

// verdictWords are the verdicts of a step for people.
var verdictWords = map[string]string{
	"hit": "has it", "miss": "does not have it", "negative": "says that there is none",
	"asked": "asked", "granted": "granted", "failed": "failed",
}

// peerSources name peers, so their verdicts are numbers.
var peerSources = []string{"cache", "named", "served", "gossip", "connected", "dht"}

func stepText(s api.LookupStep) string {
	said := verdictWords[s.Verdict]
	switch {
	case s.Source == "partial":
		said = term.Bytes(s.Count)
	case s.Source == "dns" && s.Verdict == "hit":
		said, s.Note = "says "+s.Note, ""
	case s.Verdict == "hit" && s.Note != "":
		said, s.Note = "has the record of "+s.Note, ""
	case s.Verdict == "hit" && slices.Contains(peerSources, s.Source):
		said = printable.Count(s.Count, "peer")
	case s.Verdict == "miss" && slices.Contains(peerSources, s.Source):
		said = "no peer"
	}
	text := cmp.Or(sourceWords[s.Source], s.Source) + ": " + cmp.Or(said, s.Verdict)
	if s.Lookup != "" {
		text += ", found by lookup " + s.Lookup
	}
	if s.TookMS >= 0.05 {
		text += " after " + term.Milliseconds(s.TookMS)
	}
	if s.Note != "" {
		text += ": " + s.Note
	}
	return text
}

// searchText describes a search for the key of a lookup, or for another one: a directory of
// the object, or the next name of a chain.
func searchText(s api.LookupSearch, key string) string {
	text := "search in the DHT"
	named := !strings.HasPrefix(s.Key, "b3:")
	switch {
	case named:
		text += " for the name " + s.Key
	case s.Key != key:
		text += " for the directory " + s.Key
	}
	if s.Joined {
		text += ", begun by another lookup"
	}
	switch {
	case s.Running:
		return text + ": had not ended"
	case s.Outcome != status.OK.String():
		text += ": " + s.Outcome
	case named:
		text += ": " + printable.Count(s.Found, "record")
	default:
		text += ": " + printable.Count(s.Found, "provider")
	}
	text += " after " + term.Milliseconds(s.TookMS)
	if t := s.Trace; t != nil {
		text += fmt.Sprintf("; %s, %s, %s, %s",
			t.End, printable.Count(t.Hops, "hop"), printable.Count(t.Probes, "probe"),
			printable.Count(t.Hedges, "hedge"))
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

// probeBranches returns the requests of a search.
func probeBranches(s api.LookupSearch) (all []Branch) {
	if s.Trace == nil {
		return nil
	}
	for _, p := range s.Trace.Steps {
		text := fmt.Sprintf("%10s  hop %d  %s  ", term.Milliseconds(max(0, s.AtMS)+p.StartMS), p.Hop, shortPeer(p.Peer))
		if p.Hedge {
			text += "hedge, "
		}
		text += p.Outcome
		if p.Outcome == status.OK.String() {
			text += fmt.Sprintf(": %d closer, %s", p.Closer, printable.Count(p.Providers, "provider"))
		}
		all = append(all, Branch{Text: text + ", " + term.Milliseconds(p.TookMS)})
	}
	if s.Omitted > 0 {
		all = append(all, Branch{Text: printable.Count(s.Omitted, "probe") + " left out"})
	}
	return all
}

// shortPeer returns the end of a peer's ID, where IDs differ.
func shortPeer(id string) string {
	if len(id) <= 10 {
		return id
	}
	return "…" + id[len(id)-8:]
}

func providerBranch(p api.LookupProvider) string {
	text := fmt.Sprintf("provider %s, %s: ", p.ID, originWords[p.Source])
	if p.Asked == 0 {
		text += "not asked"
	} else {
		text += printable.Count(p.Asked, "request") + ", " + term.Bytes(p.Bytes)
	}
	if p.Extra > 0 {
		text += " and " + term.Bytes(p.Extra) + " that were here already"
	}
	if p.Rate > 0 {
		text += ", " + limits.Bytes(p.Rate).Human() + "/s"
	}
	if p.RTTMS > 0 {
		text += ", first byte in " + term.Milliseconds(p.RTTMS)
	}
	if h := p.Hedges; h != (api.LookupHedges{}) {
		text += fmt.Sprintf(", hedges: %d won, %d lost, %d failed", h.Won, h.Lost, h.Failed)
	}
	if g := p.GaveUp; g != nil {
		text += fmt.Sprintf("; given up at %s with %s: %s", term.Milliseconds(g.AtMS), g.Outcome, g.Message)
	}
	return text
}

// originWords say how a provider became known.
var originWords = map[string]string{
	"named": "named by the caller", "served": "served its directory", "gossip": "by gossip", "dht": "from the DHT",
	"connected": "connected, and said that it has it",
}

// spanBranches returns the requests to a provider. Those that are left out were between the
// first four and the others.
func spanBranches(p api.LookupProvider) (all []Branch) {
	first := 0
	if p.Omitted > 0 {
		first = min(4, len(p.Spans))
	}
	ordered := slices.Clone(p.Spans) // they come in the order in which they ended
	for _, part := range [][]api.LookupSpan{ordered[:first], ordered[first:]} {
		slices.SortStableFunc(part, func(a, b api.LookupSpan) int { return cmp.Compare(a.AtMS, b.AtMS) })
	}
	for i, s := range ordered {
		if i == first && p.Omitted > 0 {
			all = append(all, Branch{Text: printable.Count(p.Omitted, "request") + " left out"})
		}
		text := fmt.Sprintf("%10s  %s: %s, ", term.Milliseconds(s.AtMS), spanWanted(s), term.Bytes(s.Bytes))
		if s.Hedge != "" {
			text += "hedge " + s.Hedge + ", "
		}
		text += s.Outcome + " after " + term.Milliseconds(s.TookMS)
		if s.Message != "" && (p.GaveUp == nil || s.Message != p.GaveUp.Message) {
			text += ": " + s.Message
		}
		all = append(all, Branch{Text: text})
	}
	return all
}

// spanWanted says what a request asked for.
func spanWanted(s api.LookupSpan) string {
	switch {
	case s.Objects > 0:
		return printable.Count(s.Objects, "object")
	case s.Start == s.End:
		return "the size"
	}
	return fmt.Sprintf("bytes %d-%d", s.Start, s.End-1)
}

// treeBranch describes what a fetch of a directory did.
func treeBranch(t *api.LookupTree) Branch {
	b := Branch{Text: fmt.Sprintf("directory: %s, %s; %d fetched, %s; %d here already",
		printable.Count(t.Objects, "object"), term.Bytes(t.Bytes), t.Fetched,
		term.Bytes(t.FetchedBytes), t.Skipped)}
	for _, f := range t.Failures {
		text := f.Root.String() + " failed with " + f.Outcome
		if f.Lookup != "" {
			text += ", lookup " + f.Lookup
		}
		b.Below = append(b.Below, Branch{Text: text})
	}
	return b
}

// leftOut says what a record leaves out.
func leftOut(o *api.LookupOmissions) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{o.Steps, "step"}, {o.Searches, "search"}, {o.Providers, "provider"},
		{o.Spans, "request"}, {o.Failures, "failure"},
	} {
		if p.n > 0 {
			parts = append(parts, printable.Count(p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}
