package fileio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/adding"
	"allium/cmd/allium/cli"
	"allium/cmd/allium/drawing"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/source"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/node"
	"allium/node/local/sent"
	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/resolver/names"
	"allium/store/meta"
)

// shareOptions are the flags of share.
type shareOptions struct {
	last   time.Duration
	listen []string
	qr     bool
	web    webOptions
}

// ShareCommand returns `allium share`.
func ShareCommand(a *cli.App) *cobra.Command {
	var o shareOptions
	cmd := &cobra.Command{
		Use:   "share PATH|KEY",
		Short: "Make a ticket with which somebody else can fetch a file or directory",
		Long: `Add a file or directory, or take one that has an address, and print a ticket: one
line that begins with allium1. Whoever has it runs "allium get TICKET", on any machine
that reaches this one, and needs nothing else. The next line, on standard error, says
for whom the ticket works: this machine, this local network, or anyone.

The ticket is the secret: what is only shared is not announced to the network. It has
a pin with the label "shared"; "allium pin rm KEY --label shared" ends that, and the
object is then removed when its space is needed. Who has the address can still ask
this node for it until then.

With --web it prints a link in place of a ticket, which any browser opens, and serves it
until Ctrl-C, whether or not a node runs. The link has a secret, and its pages tell no
address. It is plain HTTP on a free port of every address of this machine; --web-listen
127.0.0.1:0 keeps it on this machine. Standard error has a link for this machine, one for
this local network and one for the Internet, as far as there are such. With --once or
--max-downloads, a download is one browser that gets the file, or any file of the
directory or all of it as an archive; whatever it continues or gets again is the same
one. Programs that keep no cookies start one with each file, and continue it. Pages and
HEAD do not count. The command ends when the link has expired or its last download is
whole. With --on relay, browsers elsewhere can open it although this machine cannot be
reached: the gateway of the relay that this node uses shows the link, and its operator can
read what is shared. --on PEER is for any other node that has a public gateway.

If no node runs, this command is the node of the home directory until Ctrl-C or the end
of --for. It listens on free ports, and prints a line
whenever somebody has all of it (of a directory with up to 65,536 entries). If a node
runs, it serves the object, and the command ends at once.`,
		Example: `  allium share photos
  allium share report.pdf --for 24h
  allium share photos --web --expires 24h
  allium share photos --web --on relay
  allium share $ADDRESS`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if o.last < 0 || o.last > 0 && o.last < time.Second {
				return failure.NewUsage("write a time such as 24h or 30m", "--for is %s, below one second", o.last)
			}
			if err := o.web.check(cmd.Flags()); err != nil {
				return err
			}
			return share(cmd.Context(), a, arg[0], o)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.last, "for", 0, "how long the ticket works, such as 24h (default: as long as the node runs)")
	f.BoolVar(&o.qr, "qr", false, "also draw the ticket as a QR code, for a terminal with light text on dark")
	f.StringArrayVar(&o.listen, "listen", nil,
		"without a running node, multiaddr to listen on, repeatable (default free ports)")
	o.web.flags(f)
	return cmd
}

// share shares through the node that runs, or is the node.
func share(ctx context.Context, a *cli.App, arg string, o shareOptions) error {
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	_, err = n.ID(ctx)
	if err == nil {
		if len(o.listen) > 0 {
			return failure.NewUsage("leave --listen out, or stop the node",
				"--listen is given, and a node runs already")
		}
		if o.web.on {
			return shareWeb(ctx, a, n, arg, o)
		}
		shared, name, err := shareOn(ctx, a, n, arg, o)
		if err != nil {
			return err
		}
		links := adding.KnownGateway(ctx, n).RootLinks(shared.Root, name, shared.Kind == api.Directory)
		return tellShared(a, shared, links, o)
	}
	if !errors.Is(err, client.ErrNotRunning) || a.API != "" {
		return err
	}
	return source.WithHomeNode(ctx, a, o.listen, func(ctx context.Context, n *node.Node) error {
		if o.web.on {
			return shareWeb(ctx, a, n.API(), arg, o)
		}
		shared, _, err := shareOn(ctx, a, n.API(), arg, o)
		if err != nil {
			return err
		}
		follow, err := n.FollowSent(ctx, shared.Root, shared.Kind, shared.Size)
		if err != nil {
			return err
		}
		if err := tellShared(a, shared, nil, o); err != nil {
			return err
		}
		return serveShared(ctx, a, shared, follow)
	})
}

// shareOn adds or fetches what arg names, and returns its ticket and its name, as inStore does.
func shareOn(
	ctx context.Context, a *cli.App, n api.Node, arg string, o shareOptions,
) (shared api.Shared, name string, err error) {
	key, name, err := inStore(ctx, a, n, arg)
	if err != nil {
		return shared, "", err
	}
	shared, err = n.Share(ctx, key, api.ShareOptions{Name: name, For: o.last})
	return shared, name, err
}

// inStore adds or fetches what arg names, and returns its key and its name. An address has the last name of the path
// below it, or that of the path from which this user added it; "" for none.
func inStore(ctx context.Context, a *cli.App, n api.Node, arg string) (key, name string, err error) {
	if !isPath(arg) {
		if _, below, ok := strings.Cut(arg, "/"); ok && below != "" {
			name = path.Base(below)
		} else if root, err := b3.Parse(arg); err == nil {
			if from, ok := adding.KnownPaths(a)[root]; ok {
				name = filepath.Base(from)
			}
		}
		return arg, name, fetchShared(ctx, a, n, arg)
	}
	added, err := addShared(ctx, a, n, arg)
	return added.Root.String(), added.Name, err
}

// tellShared prints the ticket and its reach.
func tellShared(a *cli.App, shared api.Shared, links []string, o shareOptions) error {
	if err := a.Print(struct {
		api.Shared
		Links []string `json:"links,omitempty"` // where browsers find it
	}{shared, links}, shared.Ticket); err != nil {
		return err
	}
	if o.qr && !a.JSON {
		code, err := drawing.QR(shared.Ticket)
		if err != nil {
			return err
		}
		fmt.Fprint(a.Stderr, code)
	}
	if !a.JSON && !a.Quiet {
		fmt.Fprintln(a.Stderr, reachText(shared))
	}
	adding.TellLinks(a, links)
	return nil
}

// isPath reports whether the argument of share is a file or directory on this machine. An argument that looks like an
// address or a name is a file only if it exists.
func isPath(arg string) bool {
	first, _, _ := strings.Cut(arg, "/")
	if _, err := b3.Parse(first); err == nil {
		return false
	}
	_, err := os.Lstat(arg)
	_, digits := address.Digits(arg)
	return err == nil || !digits && !names.IsName(arg) && !strings.HasPrefix(arg, "b3:")
}

// addShared adds a file or directory without announcing it.
func addShared(ctx context.Context, a *cli.App, n api.Node, path string) (api.Added, error) {
	var begun time.Time
	o := api.AddOptions{Label: meta.SharedLabel}
	added, err := adding.AddPath(ctx, a, n, path, o, func(left *api.AddNotes) {
		adding.TellNotes(a, left)
		begun = time.Now()
	})
	if err != nil {
		return api.Added{}, err
	}
	adding.TellAdded(a, added, time.Since(begun))
	added.Name = filepath.Base(added.Name)
	return added, nil
}

// fetchShared brings an object into the store.
func fetchShared(ctx context.Context, a *cli.App, n api.Node, key string) error {
	report, finish := a.Progress("fetching")
	defer finish()
	_, err := n.Fetch(ctx, key, report)
	return err
}

// received is a peer that has got all of what is shared.
type received struct {
	Peer string `json:"peer"`
	Path string `json:"path,omitempty"` // direct quic, direct tcp or relayed
}

// serveShared tells of peers that follow reports, until the end of the ticket, or of ctx.
func serveShared(
	ctx context.Context, a *cli.App, s api.Shared, follow func(context.Context, func(sent.Peer)),
) error {
	if !a.JSON && !a.Quiet {
		fmt.Fprintln(a.Stderr, "serving until Ctrl-C"+untilText(s.NotAfter))
	}
	if !s.NotAfter.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.NotAfter)
		defer cancel()
	}
	follow(ctx, func(p sent.Peer) {
		got := received{p.ID.String(), source.PathOf(p.Addr.String())}
		switch {
		case a.JSON:
			_ = a.Print(got, "") // nobody may read it any more; others still fetch
		case !a.Quiet:
			fmt.Fprintln(a.Stderr, hasWholeText(got.Peer, got.Path))
		}
	})
	return nil
}

// reachText describes the reach of a ticket, and how to fetch with it.
func reachText(s api.Shared) string {
	return fmt.Sprintf("for %s%s; there: allium get TICKET", s.Reach, untilText(s.NotAfter))
}

// hasWholeText says that a peer has got all of what is shared. path may be empty.
func hasWholeText(peer, path string) string {
	if path != "" {
		path = ", " + path
	}
	return time.Now().Format(time.TimeOnly) + " " + peer + " has it whole" + path
}

// untilText returns ", until TIME", and "" for the zero time.
func untilText(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return ", until " + term.Stamp(end)
}
