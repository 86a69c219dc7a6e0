package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/protocols/status"
)

func (a *app) providersCommand() *cobra.Command {
	var o api.FindOptions
	var trace bool
	cmd := &cobra.Command{
		Use:   "providers KEY",
		Short: "Ask the network who has an object",
		Long: `Ask the network who has an object, and list who signed a record that says so;
first those who announced it by gossip of late. That they have it shows only when
it is fetched.

With --trace each question of the lookup follows, in the order sent: when, how
long until its end (with the dial, where there was no connection: this is no
round-trip time), the hop, the peer, whether it was a hedge (sent in place of a
late one), and what became of it:

  ok        it answered
  timeout   it did not answer in time
  late      it was given up, its place was needed for another
  canceled  the lookup ended first
  others    what the call failed with

With --json the trace is the last value.`,
		Example: `  allium providers b3:… --limit 5
  allium providers b3:… --fresh --trace`,
		Args: args(cobra.ExactArgs(1)),
		RunE: a.onNode(func(ctx context.Context, n api.Node, arg []string) error {
			if trace {
				o.Trace = &api.Trace{}
			}
			found := 0
			var failed error
			for p, err := range n.FindProviders(ctx, arg[0], o) {
				if err == nil {
					found++
					err = a.print(p, a.providerLines(p))
				}
				if err != nil {
					failed = err
					break
				}
			}
			if trace && o.Trace.End != "" {
				failed = errors.Join(failed, a.print(o.Trace, a.traceLines(*o.Trace, found)))
			}
			if failed == nil && found == 0 {
				return status.Errorf(status.NotFound, "nobody says to have %s; its owner can `allium announce` it", arg[0])
			}
			return failed
		}),
	}
	f := cmd.Flags()
	f.IntVar(&o.Limit, "limit", 0, "stop after that many, 1 to 32 (default: the node's own)")
	f.BoolVar(&o.Fresh, "fresh", false, "leave out the records and announcements that the node holds: only what peers answer now counts")
	f.BoolVar(&trace, "trace", false, "show each question that was sent, and why the lookup ended")
	return cmd
}

func (a *app) providerLines(p api.Provider) string {
	if a.quiet {
		return p.ID
	}
	head := p.ID
	if p.Source == "gossip" {
		head += "  by gossip"
	}
	return strings.Join(append([]string{head}, p.Addrs...), "\n  ")
}

// traceLines is a trace for people. Of the providers found, those that no step
// brought come from the records or announcements of the node.
func (a *app) traceLines(t api.Trace, found int) string {
	const format = "%10s  %10s  %3s  %-52s  %-5s  %s\n"
	var b strings.Builder
	if !a.quiet && found > 0 {
		b.WriteByte('\n')
	}
	if !a.quiet && len(t.Steps) > 0 {
		fmt.Fprintf(&b, format, "start", "took", "hop", "peer", "kind", "outcome")
	}
	for _, s := range t.Steps {
		kind, outcome := "probe", s.Outcome
		if s.Hedge {
			kind = "hedge"
		}
		if s.Outcome == status.OK.String() {
			outcome = fmt.Sprintf("ok: %d closer, %s", s.Closer, plural(s.Providers, "provider"))
		}
		fmt.Fprintf(&b, format, ms(s.StartMS), ms(s.TookMS), fmt.Sprint(s.Hop), s.Peer, kind, outcome)
		found -= s.Providers
	}
	if a.quiet {
		return strings.TrimSuffix(b.String(), "\n")
	}
	fmt.Fprintf(&b, "ended %s after %s: %s, %s, %s", t.End, ms(t.TookMS), plural(t.Hops, "hop"), plural(t.Probes, "probe"), plural(t.Hedges, "hedge"))
	if found > 0 {
		fmt.Fprintf(&b, "\n%s by records or announcements that this node holds; --fresh leaves them out", plural(found, "provider"))
	}
	return b.String()
}

func ms(v float64) string { return fmt.Sprintf("%.1f ms", v) }

// plural is n things.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
