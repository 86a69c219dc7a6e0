package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/cmd/allium/text"
	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

func (a *app) durabilityCommand() *cobra.Command {
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
		Args: args(cobra.MaximumNArgs(1)),
		RunE: a.onNode(func(ctx context.Context, n api.Node, arg []string) error {
			if resume {
				return a.resumeCopies(ctx, n, arg, explain)
			}
			if len(arg) == 0 {
				if explain {
					return failure.NewUsage("name an object too", "--explain says where the copies of one object belong")
				}
				d, err := n.Durability(ctx)
				if err != nil {
					return err
				}
				return a.print(d, text.Durability(d, a.quiet))
			}
			d, err := n.ObjectDurability(ctx, arg[0], explain)
			if err != nil {
				return err
			}
			return a.print(d, text.ObjectDurability(d, time.Now(), a.quiet))
		}),
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "say where the copies of the object belong, and why")
	cmd.Flags().BoolVar(&resume, "resume", false, "send all missing copies: vanished members do not come back")
	return cmd
}

func (a *app) resumeCopies(ctx context.Context, n api.Node, arg []string, explain bool) error {
	if explain || len(arg) > 0 {
		return failure.NewUsage("leave the rest out", "--resume is about all objects")
	}
	r, err := n.ResumeCopies(ctx)
	if err != nil {
		return err
	}
	return a.print(r, a.loud(text.CopiesResumed(r)))
}

// The names of the flags that ask for copies and for shards.
const (
	rfFlag = "rf"
	ecFlag = "ec"
)

// targetFlag defines --rf and --ec.
func targetFlag(cmd *cobra.Command, doc string) {
	cmd.Flags().Int(rfFlag, 0, doc)
	cmd.Flags().Lookup(rfFlag).NoOptDefVal = strconv.Itoa(api.DefaultRF)
	cmd.Flags().String(ecFlag, "",
		"data and parity shards, each on another node, in place of copies (default without numbers: "+api.DefaultEC+")")
	cmd.Flags().Lookup(ecFlag).NoOptDefVal = api.DefaultEC
}

// targetFromFlag returns the durability that --rf or --ec asks for, nil without them.
func targetFromFlag(cmd *cobra.Command) (*api.Target, error) {
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

// withNumbers joins --rf, or --ec, and a number after it. A flag whose value may be missing takes none from the next
// argument otherwise, so --rf 3 would be --rf and the argument 3.
func withNumbers(args []string) []string {
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

// awaitCopies waits until what an add stored has the copies that it asked for, with progress.
func (a *app) awaitCopies(ctx context.Context, s api.Store, roots []b3.Root, t *api.Target) error {
	n, ok := s.(api.Node)
	if !ok {
		return a.tell("no node runs, so there are no copies yet; they are made once one runs")
	}
	report, finish := a.bar("copying", false)
	defer finish()
	if report == nil {
		report = a.sayCopies()
	}
	for _, root := range roots {
		p, err := n.AwaitCopies(ctx, root.String(), t, report)
		if ctx.Err() != nil {
			return status.Errorf(status.Canceled,
				"it was interrupted; what was added is here, and the node makes the copies: `allium durability` shows them")
		}
		if err != nil {
			return err
		}
		finish()
		if err := a.tell(text.Placed(p)); err != nil {
			return err
		}
	}
	return nil
}

// sayCopies returns a function that says after a second, and then every waitLine, what an add waits for. It is for
// where no terminal is.
func (a *app) sayCopies() api.ProgressFunc {
	next := time.Now().Add(time.Second)
	return func(p api.Progress) {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(waitLine)
			_ = a.tell(fmt.Sprintf("waiting for copies: %d of %s have theirs", p.Objects, text.Plural(p.TotalObjects, "object")))
		}
	}
}

// tell writes a sentence to standard error, unless only results are wanted.
func (a *app) tell(sentence string) error {
	a.waiting.Finish()
	if a.quiet || a.json {
		return nil
	}
	_, err := fmt.Fprintln(a.err, "allium: "+sentence)
	return err
}
