// Package replication has the commands and flags about copies on other members of a
// cluster: durability, the --rf and --ec of add and pin, and the evacuation of a node.
package replication

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// DurabilityCommand returns `allium durability`.
func DurabilityCommand(a *cli.App) *cobra.Command {
	var explain, resume bool
	cmd := &cobra.Command{
		Use:   "durability [KEY]",
		Short: "Show how many copies objects have, and who holds them",
		Long: `Show how far the node is with the copies that pins ask for ("allium pin add --rf"),
and the members of its cluster: the nodes with a common key in capability.keys. A copy
counts while its holder proves it, and a member that is silent for 15 minutes is gone.

With KEY, show who holds that object: when each holder proved its copy last, and when
it is asked again. With --explain, also where the copies belong.

When more than a third of the members vanish together, the network is more likely
broken than they are: for an hour only last copies are sent. If they do not come
back, --resume ends that on this node, so run it on each.`,
		Example: `  allium durability
  allium durability $ADDRESS --explain
  allium durability --resume`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: a.OnNode(func(ctx context.Context, n api.Node, arg []string) error {
			if resume {
				return resumeCopies(ctx, a, n, arg, explain)
			}
			if len(arg) == 0 {
				if explain {
					return failure.NewUsage("name an object too",
						"--explain says where the copies of one object belong")
				}
				d, err := n.Durability(ctx)
				if err != nil {
					return err
				}
				return a.Print(d, durabilityText(d, a.Quiet))
			}
			d, err := n.ObjectDurability(ctx, arg[0], explain)
			if err != nil {
				return err
			}
			return a.Print(d, objectDurabilityText(d, time.Now(), a.Quiet))
		}),
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "say where the copies of the object belong, and why")
	cmd.Flags().BoolVar(&resume, "resume", false, "send all missing copies: vanished members do not come back")
	return cmd
}

func resumeCopies(ctx context.Context, a *cli.App, n api.Node, arg []string, explain bool) error {
	if explain || len(arg) > 0 {
		return failure.NewUsage("leave the rest out", "--resume is about all objects")
	}
	r, err := n.ResumeCopies(ctx)
	if err != nil {
		return err
	}
	return a.Print(r, a.Loud(copiesResumedText(r)))
}

// The names of the flags that ask for copies and for shards.
const (
	rfFlag = "rf"
	ecFlag = "ec"
)

// TargetFlag defines --rf and --ec.
func TargetFlag(cmd *cobra.Command, doc string) {
	cmd.Flags().Int(rfFlag, 0, doc)
	cmd.Flags().Lookup(rfFlag).NoOptDefVal = strconv.Itoa(api.DefaultRF)
	cmd.Flags().String(ecFlag, "",
		"data and parity shards, each on another node, in place of copies (default without numbers: "+api.DefaultEC+")")
	cmd.Flags().Lookup(ecFlag).NoOptDefVal = api.DefaultEC
}

// TargetFromFlag returns the durability that --rf or --ec asks for, nil without them.
func TargetFromFlag(cmd *cobra.Command) (*api.Target, error) {
	f, shards := cmd.Flags().Lookup(rfFlag), cmd.Flags().Lookup(ecFlag)
	switch {
	case f.Changed && shards.Changed:
		return nil, failure.NewUsage("leave one of them out", "a pin asks for copies (--rf) or for shards (--ec)")
	case shards.Changed:
		if _, err := meta.ParseShards(shards.Value.String()); err != nil {
			return nil, failure.In("--ec", err)
		}
		return &api.Target{EC: shards.Value.String()}, nil
	case !f.Changed:
		return nil, nil
	}
	n, err := cmd.Flags().GetInt(rfFlag)
	if err == nil && n < 0 {
		err = failure.NewUsage("give a number of nodes, such as --rf 3", "--rf %d is no number of nodes", n)
	}
	return &api.Target{RF: n}, err
}

// WithNumbers joins --rf, or --ec, and a number after it. A flag whose value may be missing takes none from the next
// argument otherwise, so --rf 3 would be --rf and the argument 3.
func WithNumbers(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		digits := map[string]string{"--" + rfFlag: "0123456789", "--" + ecFlag: "0123456789+"}[args[i]]
		if digits != "" && args[i+1] != "" && strings.Trim(args[i+1], digits) == "" {
			args[i] += "=" + args[i+1]
			args = slices.Delete(args, i+1, i+2)
		}
	}
	return args
}

// AwaitCopies waits until what an add stored has the copies that it asked for, with progress.
func AwaitCopies(ctx context.Context, a *cli.App, s api.Store, roots []b3.Root, t *api.Target) error {
	n, ok := s.(api.Node)
	if !ok {
		return a.Tell("no node runs, so there are no copies yet; they are made once one runs")
	}
	report, finish := a.Bar("copying", false)
	defer finish()
	if report == nil {
		report = sayCopies(a)
	}
	for _, root := range roots {
		p, err := n.AwaitCopies(ctx, root.String(), t, report)
		if ctx.Err() != nil {
			return status.Errorf(status.Canceled,
				"it was interrupted; what was added is here, and the node makes the copies: `allium durability` "+
					"shows them")
		}
		if err != nil {
			return err
		}
		finish()
		if err := a.Tell(placedText(p)); err != nil {
			return err
		}
	}
	return nil
}

// sayCopies returns a function that says after a second, and then every waitLine, what an add waits for. It is for
// where no terminal is.
func sayCopies(a *cli.App) api.ProgressFunc {
	next := time.Now().Add(time.Second)
	return func(p api.Progress) {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(waitLine)
			_ = a.Tell(fmt.Sprintf("waiting for copies: %d of %s have theirs", p.Objects,
				printable.Count(p.TotalObjects, "object")))

		}
	}
}

// durabilityText says how far a node is with copies: a line for all objects, and one for each member.
func durabilityText(d api.Durability, quiet bool) string {
	if quiet {
		return fmt.Sprintf("%d %d %d %d", d.Objects, d.AtRisk, d.Lost, d.Checking)
	}
	var b strings.Builder
	switch {
	case d.Objects == 0 && !d.Ready:
		b.WriteString("the node has just started and has not looked at its pins yet\n")
	case d.Objects == 0:
		b.WriteString("no pin asks for copies; `allium pin add KEY --rf 3` does\n")
	default:
		fmt.Fprintf(&b, "%s with a target: %d at risk, %d lost, %d checking; %d of %d copies\n",
			printable.Count(d.Objects, "object"), d.AtRisk, d.Lost, d.Checking, d.Observed, d.Wanted)
	}
	if d.Unreachable > 0 {
		fmt.Fprintf(&b, "%s at risk cannot be read until a member answers that is silent\n",
			printable.Count(d.Unreachable, "object"))
	}
	if d.Missing > 0 {
		fmt.Fprintf(&b, "missing: %s", term.Bytes(d.Missing))
		if d.ETASeconds > 0 {
			eta := time.Duration(d.ETASeconds * float64(time.Second))
			fmt.Fprintf(&b, ", about %s at the rate of the latest sends", term.Rounded(eta))
		}
		b.WriteByte('\n')
	}
	if d.Unplanned > 0 {
		fmt.Fprintf(&b, "%s more are not planned, as this node plans only so many\n",
			printable.Count(d.Unplanned, "object"))
	}
	if o := d.Beyond; o != nil {
		fmt.Fprintf(&b, "%s with more copies asked for than the cluster has nodes, such as %s: %s asks for %s\n",
			printable.Count(o.Objects, "object"), o.First, o.By.ID, o.By.Target)
	}
	if d.Evacuation != nil {
		b.WriteString(evacuationText(*d.Evacuation) + "\n")
	}
	if d.LastOnly {
		b.WriteString("more than a third of the members vanished together: only last copies are sent, for an hour " +
			"at most; `allium durability --resume` ends that\n")
	}
	if len(d.Members) == 0 {
		b.WriteString("this node has no key of a cluster: `allium token key rotate` makes one, and copies of " +
			"capability.keys join other nodes")
		return b.String()
	}
	for i, m := range d.Members {
		fmt.Fprintf(&b, "%s  %-8s  %s of %s free%s", m.ID, m.State, term.Bytes(int64(m.Free)),
			term.Bytes(int64(m.Capacity)), memberPlace(m))
		if m.Self {
			b.WriteString("  this node")
		}
		if i < len(d.Members)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func memberPlace(m api.Member) (s string) {
	for _, p := range []struct{ name, value string }{
		{"region", m.Region}, {"domain", m.Domain}, {"network", m.Network},
	} {
		if p.value != "" {
			s += "  " + p.name + " " + p.value
		}
	}
	return s
}

// objectDurabilityText says who holds copies of an object.
func objectDurabilityText(d api.ObjectDurability, now time.Time, quiet bool) string {
	if quiet {
		return fmt.Sprintf("%d %d", d.Observed, d.Wanted)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s, %d observed", d.Key, term.Bytes(d.Size), d.Target, d.Observed)
	switch d.State {
	case "checking":
		b.WriteString(", checking")
	case "unreachable":
		b.WriteString(", cannot be read until a member answers that is silent")
	case "lost":
		b.WriteString(", lost")
	}
	if !d.Short.IsZero() {
		fmt.Fprintf(&b, ", copies missing for %s", term.Span(now.Sub(d.Short)))
	}
	if !d.Removed.IsZero() {
		fmt.Fprintf(&b, "\nthe target was removed %s ago; the copies go a day after that, unless it is set again",
			term.Span(now.Sub(d.Removed)))
	}
	for _, h := range d.Holders {
		fmt.Fprintf(&b, "\n%s  %-8s", h.ID, h.State)
		var said []string
		if h.Piece != "" {
			said = append(said, h.Piece)
		}
		if !h.LastProof.IsZero() {
			said = append(said, "last proof "+term.Ago(h.LastProof, now))
		}
		if h.NextAudit.After(now) {
			said = append(said, "asked again in "+term.Rounded(h.NextAudit.Sub(now)).String())
		}
		if len(said) > 0 {
			b.WriteString("  " + strings.Join(said, ", "))
		}
		if h.Self {
			b.WriteString("  this node")
		}
	}
	for _, q := range d.Asked {
		fmt.Fprintf(&b, "\n%s  asks for %s%s", q.ID, q.Target, askedWhy(q))
	}
	for i, p := range d.Places {
		if i == 0 {
			b.WriteString("\nwhere the copies belong:")
		}
		place := "-"
		if p.Chosen > 0 {
			place = fmt.Sprint(p.Chosen)
		}
		fmt.Fprintf(&b, "\n%3s  %s  %s", place, p.ID, p.Why)
	}
	return b.String()
}

// askedWhy says what is special about a node that asks for copies.
func askedWhy(q api.Asking) (s string) {
	switch q.Why {
	case "stranger":
		return ", and is no member of this cluster: that counts only while no member asks, for 3 copies at most"
	case "adopted":
		s = ", as others remember: it has lost that pin, and `allium pin rm` removes it"
	}
	if q.Beyond {
		s += ", more than the cluster has nodes"
	}
	if q.Self {
		s += "  this node"
	}
	return s
}

// placedText says that the copies are there.
func placedText(p api.Placed) string {
	return fmt.Sprintf("%s: all copies of %s are there", p.Root, printable.Count(p.Objects, "object"))
}
