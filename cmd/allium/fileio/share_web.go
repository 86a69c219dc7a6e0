package fileio

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/drawing"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
)

// webOptions are the flags of share for a link that a browser opens.
type webOptions struct {
	on        bool
	expires   time.Duration
	once      bool
	downloads int
	listen    string
	gateway   string // of a peer: api.OnRelay, or the peer
}

func (o *webOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "web", false, "print a link that any browser opens, and serve it until Ctrl-C")
	f.DurationVar(&o.expires, "expires", 0, "with --web, how long the link works, such as 24h (default until Ctrl-C)")
	f.BoolVar(&o.once, "once", false, "with --web, allow one download and end when it is whole")
	f.IntVar(&o.downloads, "max-downloads", 0, "with --web, how many downloads the link allows (default any number)")
	f.StringVar(&o.listen, "web-listen", ":0",
		"with --web, host:port to listen on; 127.0.0.1:0 is for this machine alone")
	f.StringVar(&o.gateway, "on", "",
		"with --web, show the link on the gateway of a peer: relay, or a peer ID or multiaddr (default this machine)")
}

// check refuses flags that do not go together.
func (o *webOptions) check(f *pflag.FlagSet) error {
	for _, name := range []string{"expires", "once", "max-downloads", "web-listen", "on"} {
		if f.Changed(name) && !o.on {
			return failure.NewUsage("add --web", "--%s is for a link that a browser opens", name)
		}
	}
	switch {
	case o.on && f.Changed("for"):
		return failure.NewUsage("use --expires", "--for is for tickets, and --web makes a link")
	case f.Changed("expires") && o.expires < time.Second:
		return failure.NewUsage("write a time such as 24h or 30m", "--expires is %s, below one second", o.expires)
	case o.once && f.Changed("max-downloads"):
		return failure.NewUsage("give one of them", "--once and --max-downloads say the same")
	case f.Changed("on") && f.Changed("web-listen"):
		return failure.NewUsage("give one of them",
			"--on is for the gateway of a peer, and --web-listen for this machine")
	case f.Changed("on") && o.gateway == "":
		return failure.NewUsage("write relay, a peer ID or a multiaddr", "--on is empty")
	case f.Changed("max-downloads") && o.downloads < 1:
		return failure.NewUsage("give a number from 1 on", "--max-downloads is %d", o.downloads)
	}
	if o.once {
		o.downloads = 1
	}
	return nil
}

// shareWeb opens a link and tells of its downloads until it ends.
func shareWeb(ctx context.Context, a *cli.App, n api.Node, arg string, o shareOptions) error {
	key, name, err := inStore(ctx, a, n, arg)
	if err != nil {
		return err
	}
	web := api.WebOptions{Name: name, Listen: o.web.listen, For: o.web.expires, Downloads: o.web.downloads,
		On: o.web.gateway}
	for item, err := range n.ShareWeb(ctx, key, web) {
		switch {
		case err != nil && ctx.Err() != nil: // Ctrl-C ends the link
			return nil
		case err != nil:
			return err
		}
		if err := tellLink(a, item, o); err != nil {
			return err
		}
	}
	return nil
}

// tellLink prints a link, or what happened to it. The first line of the output is the farthest URL alone.
func tellLink(a *cli.App, item api.WebShared, o shareOptions) error {
	switch {
	case item.Download != nil && (a.JSON || a.Quiet):
		if a.JSON {
			_ = a.Print(item, "") // nobody may read it any more; others still download
		}
		return nil
	case item.Download != nil:
		fmt.Fprintln(a.Stderr, drawing.Download(*item.Download, o.web.downloads, time.Now()))
		return nil
	case len(item.Links) == 0:
		return nil
	}
	if err := a.Print(item, item.Links[0].URL); err != nil || a.JSON {
		return err
	}
	if o.qr {
		code, err := drawing.QRText(item.Links[0].URL)
		if err != nil {
			return err
		}
		fmt.Fprint(a.Stderr, code)
	}
	if !a.Quiet {
		fmt.Fprintln(a.Stderr, drawing.Links(item.Links)+"\nserving until Ctrl-C"+untilText(item.NotAfter))
		if far := item.Links[0].Reach; far == api.ReachLAN && o.web.gateway == "" {
			fmt.Fprintln(a.Stderr, "no browser elsewhere can open it; --on relay shows it on the gateway of a relay, "+
				"whose operator can read it")
		}
	}
	return nil
}
