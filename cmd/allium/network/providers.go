package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

// ProvidersCommand returns `allium providers`.
func ProvidersCommand(a *cli.App) *cobra.Command {
	var o api.FindOptions
	var trace bool
	cmd := &cobra.Command{
		Use:   "providers KEY",
		Short: "Find the peers that have an object",
		Long: `Ask which peers have an object. The command lists the peers that announced it
by gossip a short time ago, and those that signed a record for it, the best first: by
round trip, throughput, region, the age of the record and how they behaved before. Only
a fetch proves that a peer has the object.

With --trace the requests of the lookup follow in the order they were sent: start,
duration (it includes the dial of a new connection, so it is no round-trip time),
hop, peer, whether it was a hedge (sent because another request was late), and
outcome:

  ok        the peer answered
  timeout   the peer did not answer in time
  late      the lookup gave it up to ask another peer
  canceled  the lookup ended first
  others    the outcome of the failed request

With --json the trace is the last value.`,
		Example: `  allium providers $ADDRESS --limit 5
  allium providers $ADDRESS --region eu --min-freshness 12h
  allium providers $ADDRESS --fresh --trace`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			if trace {
				o.Trace = &api.Trace{}
			}
			found := 0
			var failed error
			for p, err := range n.FindProviders(ctx, arg[0], o) {
				if err == nil {
					found++
					err = a.Print(p, providerText(p, a.Quiet))
				}
				if err != nil {
					failed = err
					break
				}
			}
			if trace && o.Trace.End != "" {
				failed = errors.Join(failed, a.Print(o.Trace, traceText(*o.Trace, found, a.Quiet)))
			}
			if failed == nil && found == 0 {
				return failure.Found(status.Errorf(status.NotFound,
					"no peer says that it has %s; its owner can announce it with `allium announce`", arg[0]))
			}
			return failed
		}),
	}
	queryFlags(cmd, &o.Query)
	cmd.Flags().BoolVar(&trace, "trace", false, "show each request of the lookup, and why it ended")
	return cmd
}

// ResolveCommand returns `allium resolve`.
func ResolveCommand(a *cli.App) *cobra.Command {
	var q api.Query
	cmd := &cobra.Command{
		Use:   "resolve KEY",
		Short: "Find what a key names, and some peers that have it",
		Long: `Find the object that a key names and some of its providers, the best first. A key is
an address or a name, LABEL.ZONE; of a name the signed records that lead to the address
come first, with the key of the zone and where a short name was found. -q prints the
address, or the text, that a name stands for. A line break or an invisible character in
it is printed as \n or another escape, a backslash as two; --json has it as it is.

The search for providers ends soon after the first provider is known; ` + "`allium providers`" + ` goes on. A node
that has the object names itself.

The first line says where the answer came from (cache, local, peer, gossip, connected or dht), how
old it is, how long the node will remember it, and how sure it is. With --max-stale it
says stale if a record of the name has ended.

  served  the peer sent verified bytes of the object, or is this node and has it
  signed  the DHT has a record that the peer signed
  hint    the peer announced the object by gossip, or served its directory`,
		Example: `  allium resolve $ADDRESS
  allium resolve blog.alice
  allium resolve blog.alice --max-stale 1h
  allium resolve $ADDRESS --fresh --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			found, err := n.Resolve(ctx, arg[0], q)
			if err != nil {
				return err
			}
			return a.Print(found, resolvedText(found, a.Quiet))
		}),
	}
	queryFlags(cmd, &q)
	source.MaxStaleFlag(cmd, &q.MaxStale)
	return cmd
}

// queryFlags adds the flags that say which providers are wanted.
func queryFlags(cmd *cobra.Command, q *api.Query) {
	f := cmd.Flags()
	f.IntVar(&q.Limit, "limit", 0, "list at most this many providers, 1 to 32 (default: the node's own limit, 5)")
	f.StringVar(&q.Region, "region", "", "list only providers that say they are in this region (default: all)")
	f.DurationVar(&q.MinFreshness, "min-freshness", 0,
		"list only providers whose record was signed at most this long ago, such as 12h (default: all)")
	f.BoolVar(&q.Fresh, "fresh", false,
		"ask the peers only, and leave out what the node remembers and knows itself")
}

// providerText is the id of a provider and, unless quiet, how sure its claim is, its
// round-trip time and region, and its addresses.
func providerText(p api.Provider, quiet bool) string {
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

// resolvedText is an object and its providers; if quiet, only their ids.
func resolvedText(r api.Resolved, quiet bool) string {
	var lines []string
	if !quiet {
		age, ttl := time.Duration(r.AgeMS)*time.Millisecond, time.Duration(r.TTLMS)*time.Millisecond
		for _, rec := range r.Chain {
			lines = append(lines, recordText(rec))
		}
		if r.Value != "" {
			return strings.Join(append(lines, printable.Name(r.Value)), "\n")
		}
		note := ""
		if r.Stale {
			note = ", stale"
		}
		lines = append(lines, fmt.Sprintf("%s  from %s, %s old, remembered for %s, %s%s",
			resolvedTarget(r), r.Source, age, ttl, r.Confidence, note))
	} else if len(r.Chain) > 0 {
		return cmp.Or(printable.Name(r.Value), resolvedTarget(r))
	}
	for _, p := range r.Providers {
		lines = append(lines, providerText(p, quiet))
	}
	return strings.Join(lines, "\n")
}

// resolvedTarget is the address that a name stands for, on one line.
func resolvedTarget(r api.Resolved) string {
	return printable.Name(strings.TrimSuffix(r.Target.String()+"/"+r.Path, "/"))
}

// recordText is a line that shows the record of a name, and where its zone was found.
func recordText(r api.Record) string {
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

// traceText is a table of the steps of a lookup that found so many providers.
// Providers that no step brought come from records or announcements of the node.
func traceText(t api.Trace, found int, quiet bool) string {
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
			outcome = fmt.Sprintf("ok: %d closer, %s", s.Closer, printable.Count(s.Providers, "provider"))
		}
		fmt.Fprintf(&b, format, term.Milliseconds(s.StartMS), term.Milliseconds(s.TookMS),
			fmt.Sprint(s.Hop), s.Peer, kind, outcome)
		found -= s.Providers
	}
	if quiet {
		return strings.TrimSuffix(b.String(), "\n")
	}
	fmt.Fprintf(&b, "ended %s after %s: %s, %s, %s",
		t.End, term.Milliseconds(t.TookMS), printable.Count(t.Hops, "hop"),
		printable.Count(t.Probes, "probe"), printable.Count(t.Hedges, "hedge"))
	if found > 0 {
		fmt.Fprintf(&b, "\n%s by records or announcements that this node holds; --fresh leaves them out",
			printable.Count(found, "provider"))
	}
	return b.String()
}
