// Package source opens what a command reads from: the running node, its store, a
// gateway, or a node that lasts as long as the command.
//
// WithTarget understands the argument of a command, an address, a name or a ticket,
// and runs a function on the source that it needs. The flags that choose a source are
// here too: --gateway, --from, --max-stale and --timeout.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	homedir "allium/node/home"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

// Target is the key or the ticket in the argument of a command.
type Target struct {
	Key    string         // b3:<hex>[/path] or a name
	Ticket *ticket.Ticket // nil: the argument is no ticket
}

// Suggested returns the name that the ticket suggests for the output, if the target is the object of the
// ticket itself. It is only a name: ticket.Parse refuses paths.
func (t Target) Suggested() string {
	if t.Ticket == nil || t.Key != t.Ticket.Root.String() {
		return ""
	}
	return t.Ticket.Name
}

// maxTargetText bounds what is read from standard input in place of an argument, in bytes.
const maxTargetText = 4 << 10

// ParseTarget understands an argument: an address, a name or a ticket, each with a path below it or none. For
// "-" it reads one from standard input, which keeps a ticket out of the history of the shell.
func ParseTarget(ctx context.Context, a *cli.App, arg string) (Target, error) {
	if arg == "-" {
		raw, err := io.ReadAll(io.LimitReader(term.Interruptible(ctx, a.Stdin), maxTargetText+1))
		if err != nil {
			return Target{}, failure.In("standard input", err)
		}
		if len(raw) > maxTargetText {
			return Target{}, failure.NewUsage("write one ticket or address to it", "standard input has more than %s",
				term.Bytes(maxTargetText))
		}
		if arg, err = pasted(string(raw)); err != nil {
			return Target{}, err
		}
	}
	text, path, below := strings.Cut(arg, "/")
	if !ticket.Is(text) {
		return Target{Key: arg}, nil
	}
	t, err := ticket.Parse(text)
	if err != nil {
		return Target{}, err
	}
	key := t.Root.String()
	if below {
		key += "/" + path
	}
	return Target{key, &t}, nil
}

// pasted returns the argument that standard input has. A chat program may have broken a ticket into lines or
// put it in quotes.
func pasted(text string) (string, error) {
	text = strings.Trim(text, " \t\r\n\"'`<>")
	word, path, below := strings.Cut(text, "/")
	switch {
	case text == "":
		return "", failure.NewUsage("write one ticket or address to it", "standard input has none")
	case ticket.Is(text):
		if text = strings.Join(strings.Fields(word), ""); below {
			text += "/" + path
		}
	case strings.ContainsAny(word, " \t\r\n") && strings.Contains(strings.ToLower(text), "allium1"):
		return "", failure.NewUsage("copy the ticket alone", "standard input has a ticket, and words before it")
	}
	return text, nil
}

// WithTarget runs do on the node, its store or a gateway, for what arg names. A ticket needs a node: if
// none runs, do runs on one in this process, which embed describes.
func WithTarget(
	ctx context.Context, a *cli.App, through GatewayFlags, arg string, embed EmbedOptions,
	do func(r api.Reader, to Target) error,
) error {
	to, err := ParseTarget(ctx, a, arg)
	if err != nil {
		return err
	}
	if to.Ticket == nil || through.URL != "" { // a gateway finds the providers itself
		return withReader(ctx, a, through, func(r api.Reader) error { return do(r, to) })
	}
	err = WithRunning(ctx, a, *to.Ticket, func(n api.Node) error { return do(n, to) })
	if !errors.Is(err, client.ErrNotRunning) && !errors.Is(err, homedir.ErrNone) || a.API != "" {
		return err
	}
	return withEmbedded(ctx, a, *to.Ticket, embed, func(n api.Node) error { return do(n, to) })
}

// WithSource is WithTarget with the peer of --from, or none, which the running node asks first.
func WithSource(
	ctx context.Context, a *cli.App, through GatewayFlags, from, arg string, embed EmbedOptions,
	do func(r api.Reader, to Target) error,
) error {
	if from == "" {
		return WithTarget(ctx, a, through, arg, embed, do)
	}
	if through.URL != "" {
		return FromConflict("--gateway")
	}
	to, err := ParseTarget(ctx, a, arg)
	if err != nil {
		return err
	}
	if to.Ticket != nil {
		return FromConflict("a ticket")
	}
	return WithFrom(ctx, a, from, to.Key, func(n api.Node) error { return do(n, to) })
}

// WithRunning runs do on the node that runs. It asks the peer of the ticket first.
func WithRunning(ctx context.Context, a *cli.App, t ticket.Ticket, do func(api.Node) error) error {
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	id, err := n.ID(ctx)
	if err != nil {
		return err
	}
	network, err := ticket.ParseNetwork(id.Network)
	if err != nil {
		return err
	}
	return AskFirst(ctx, a, n, id.ID, t, network, do)
}

// AskFirst runs do on n, which asks the peer of the ticket first. self is the ID of n.
func AskFirst(
	ctx context.Context, a *cli.App, n api.Node, self string, t ticket.Ticket, network ticket.Network,
	do func(api.Node) error,
) error {
	id, err := peer.Decode(self)
	if err != nil {
		return err
	}
	if err := t.Check(time.Now(), network, id); err != nil {
		return err
	}
	source := t.Source(localPrefixes(), a.API == "")
	asked := []string{}
	for _, addr := range source.Addrs {
		asked = append(asked, addr.String()+"/p2p/"+t.Peer.String())
	}
	if len(asked) == 0 {
		asked = append(asked, t.Peer.String())
	}
	asking, err := n.AskFirst(asked)
	if err != nil {
		return err
	}
	if err = do(asking); err != nil && len(source.Addrs) > 0 {
		return unreached(ctx, n, t.Peer, asked[0], err)
	}
	return err
}

// unreachedWait bounds the dial that asks why a peer was not reached.
const unreachedWait = 3 * time.Second

// unreached returns err, with which a fetch from the peer of a ticket ended, or why that peer was not reached, or
// only through a relay.
func unreached(ctx context.Context, n api.Node, id peer.ID, addr string, err error) error {
	switch status.Of(err) {
	case status.TransportDown, status.Timeout, status.NotFound, status.NoBootstrap, status.BreakerOpen:
	default:
		return err
	}
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, unreachedWait)
	defer cancel()
	path := PathTo(ctx, n, id)
	if path == "" {
		if _, why := n.Connect(ctx, addr); why != nil {
			reason, _, _ := strings.Cut(why.Error(), "; ")
			return &status.Error{Outcome: status.TransportDown, Err: err, Message: fmt.Sprintf(
				"the node that shares is out of reach: %s; check that `allium share` still runs there and for whom "+
					"it says that the ticket works, then run the same command again, or ask for a new ticket", reason)}
		}
		path = PathTo(ctx, n, id)
	}
	if path == relayedPath && status.Of(err) != status.NotFound {
		return &status.Error{Outcome: status.TransportDown, Err: err, Message: "only a relay leads to the node that " +
			"shares, and a relay carries only so much; open or forward a port on either side (`allium doctor " +
			"reach` says which), then run the same command again: it resumes"}
	}
	return err
}

// localPrefixes returns the prefixes of the addresses of this machine. An error leaves them empty, and
// then no private address is dialled.
func localPrefixes() (all []netip.Prefix) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			ip, _ := netip.AddrFromSlice(n.IP)
			bits, _ := n.Mask.Size()
			if ip = ip.Unmap(); !ip.IsLoopback() {
				all = append(all, netip.PrefixFrom(ip, bits).Masked())
			}
		}
	}
	return all
}

// PathTo says how the bytes of a peer travel: "direct quic", "direct tcp", "relayed", or "" if n is not
// connected to it.
func PathTo(ctx context.Context, n api.Node, id peer.ID) string {
	peers, err := n.Peers(ctx)
	if err != nil {
		return ""
	}
	path := ""
	for _, p := range peers {
		if p.ID == id.String() && (path == "" || path == relayedPath) {
			path = PathOf(p.Addr)
		}
	}
	return path
}

const relayedPath = "relayed"

// PathOf is PathTo for a connection with the remote address addr.
func PathOf(addr string) string {
	switch {
	case addr == "":
		return ""
	case strings.Contains(addr, "/p2p-circuit"):
		return relayedPath
	case strings.Contains(addr, "/quic-v1"):
		return "direct quic"
	}
	return "direct tcp"
}
