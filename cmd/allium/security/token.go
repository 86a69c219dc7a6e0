// Package security has the commands about who may do what: token, audit and
// swarm-key.
package security

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/policy/capabilities"
	"allium/internal/printable"
	homedir "allium/node/home"
	"allium/protocols/address"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// How long a new capability holds.
const (
	defaultLife = 30 * 24 * time.Hour  // without --expires
	longestLife = 366 * 24 * time.Hour // more is an error
)

// TokenCommand returns `allium token`.
func TokenCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, narrow, inspect and revoke capabilities",
		Long: `A capability lets its bearer change something on a node over HTTP. It says what,
until when and within which bounds. A node's home directory has the key that
capabilities are made with (capability.keys; the first "token mint" makes it).
Anyone who has a capability can narrow it further, without the key.

Anyone who has a capability can use it. Pass it in a file or on standard input, not
as an argument, which the list of processes shows.`,
		Example: `  umask 077
  allium token mint --op put --expires 24h > token
  allium token attenuate --bytes 10MiB - < token > less
  (printf 'Authorization: Bearer '; cat less) | curl -H @- -X POST -T photo.jpg http://127.0.0.1:8080/o
  allium token revoke - < token`,
	}
	cmd.AddCommand(tokenMintCommand(a), tokenAttenuateCommand(a), tokenInspectCommand(a),
		tokenRevokeCommand(a), tokenKeyCommand(a))
	return cmd
}

// openCapabilities opens the capability files of the home directory.
func openCapabilities(a *cli.App) (capabilities.Files, error) {
	home, err := a.HomeDir()
	return capabilities.Open(home), err
}

// audience is [homedir.Audience] of the home directory. Only "self" needs one.
func audience(a *cli.App, id string) (string, error) {
	home := ""
	if id == "self" {
		var err error
		if home, err = a.HomeDir(); err != nil {
			return "", err
		}
	}
	return homedir.Audience(home, id)
}

// caveatFlags are the flags that narrow a capability.
type caveatFlags struct {
	op, method                            []string
	obj, name, bytes, expires, aud, label string
	rate                                  int64
}

func (f *caveatFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.op, "op", nil, "operations that it allows (required to mint): "+opNames()+", or all")
	fl.StringVar(&f.expires, "expires", "", "how long it is valid (24h, 30d), or until when (2026-01-02T15:04:05Z)")
	fl.StringVar(&f.obj, "obj", "", "only objects whose address begins with this, b3:… (default: all)")
	fl.StringVar(&f.name, "name", "", "only names that begin with this (default: all)")
	fl.StringSliceVar(&f.method, "method", nil, "only these HTTP methods (default: all)")
	fl.StringVar(&f.bytes, "bytes", "", "most bytes in one request, such as 10MiB (default: no limit)")
	fl.Int64Var(&f.rate, "rate", 0, "most requests a second (default: no limit)")
	fl.StringVar(&f.label, "label", "", "only pins with this label; a pin without a label gets it (default: any label)")
	fl.StringVar(&f.aud, "aud", "",
		"only this node: a peer id, or self for the node of the home directory (default: any)")
}

// opNames lists the operations that a capability can allow.
func opNames() string {
	var names []string
	for _, o := range capability.Ops() {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// caveats returns the flags that were given as caveats, the expiry first.
func (f *caveatFlags) caveats(cmd *cobra.Command, a *cli.App, now time.Time) ([]capability.Caveat, error) {
	var texts []string
	given := cmd.Flags().Changed
	if root, err := address.Root(f.obj); err == nil {
		f.obj = root.String()
	}
	if given("expires") {
		until, err := parseExpiry(f.expires, now)
		if err != nil {
			return nil, err
		}
		texts = append(texts, "exp < "+until.UTC().Format(time.RFC3339))
	}
	if given("op") {
		ops := strings.Join(f.op, ",")
		if ops == "all" {
			ops = strings.ReplaceAll(opNames(), " ", "")
		}
		for op := range strings.SplitSeq(ops, ",") {
			if !capability.Op(op).Known() {
				return nil, failure.NewUsage("choose from "+opNames()+", or all",
					"--op is %q, and there is no such operation", op)
			}
		}
		texts = append(texts, "op in "+ops)
	}
	for _, v := range []struct{ flag, text string }{
		{"obj", "obj ^= " + f.obj},
		{"name", "name ^= " + f.name},
		{"method", "method in " + strings.Join(f.method, ",")},
		{"bytes", "bytes <= " + f.bytes},
		{"rate", "rate <= " + strconv.FormatInt(f.rate, 10)},
		{"label", "label = " + f.label},
	} {
		if given(v.flag) {
			texts = append(texts, v.text)
		}
	}
	if given("aud") {
		peer, err := audience(a, f.aud)
		if err != nil {
			return nil, err
		}
		texts = append(texts, "aud = "+peer)
	}
	var caveats []capability.Caveat
	for _, text := range texts {
		c, err := capability.ParseCaveat(text)
		if err != nil {
			return nil, err
		}
		caveats = append(caveats, c)
	}
	return caveats, nil
}

// parseExpiry parses a time, or a duration from now on such as 24h or 30d. A
// capability counts whole seconds: a duration ends with the second that it ends in.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	until, err := time.Parse(time.RFC3339, s)
	if err != nil {
		life, err := time.ParseDuration(s)
		if days, ok := strings.CutSuffix(s, "d"); ok {
			var n uint64
			n, err = strconv.ParseUint(days, 10, 16)
			life = time.Duration(n) * 24 * time.Hour
		}
		if err != nil {
			return until, failure.NewUsage(
				"write 24h, 30d or a time such as 2026-01-02T15:04:05Z", "--expires is %q, which is no time", s)
		}
		until = now.Add(life)
	}
	switch {
	case !until.After(now):
		return until, failure.NewUsage("give a later time", "--expires is %q, and that is past", s)
	case until.Sub(now) > longestLife:
		return until, failure.NewUsage("give a year (366d) at most", "--expires is %q, and that is too long", s)
	}
	if err != nil { // a duration
		until = until.Add(time.Second - 1).Truncate(time.Second)
	}
	return until, nil
}

func tokenMintCommand(a *cli.App) *cobra.Command {
	var f caveatFlags
	cmd := &cobra.Command{
		Use:   "mint --op OP[,OP…]",
		Short: "Make a capability",
		Long: `Make a capability with the key of the home directory, and print it. This works with
and without a running node. If there is no key yet, the command makes one, and a
running node uses it at once.`,
		Example: `  allium token mint --op put,pin --expires 24h
  allium token mint --op get,put --bytes 10MiB --rate 20 --aud self
  allium token mint --op put,pin,unpin --label photos
  TOKEN=$(allium token mint --op drain --expires 5m)`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("op") {
				return failure.NewUsage("choose from "+opNames()+", or all", "--op is missing")
			}
			if !cmd.Flags().Changed("expires") {
				if err := cmd.Flags().Set("expires", defaultLife.String()); err != nil {
					return err
				}
			}
			c, err := openCapabilities(a)
			if err != nil {
				return err
			}
			caveats, err := f.caveats(cmd, a, time.Now())
			if err != nil {
				return err
			}
			token, err := c.Mint(cmd.Context(), caveats...)
			if err != nil {
				return err
			}
			return printToken(a, token)
		},
	}
	f.add(cmd)
	cmd.Flag("expires").Usage += " (default 30d)"
	return cmd
}

// printToken prints a token, and with --json what it allows.
func printToken(a *cli.App, token string) error {
	info, err := capability.Inspect(token)
	if err != nil {
		return err
	}
	return a.Print(struct {
		Token string `json:"token"`
		capability.Info
	}{token, info}, token)
}

func tokenAttenuateCommand(a *cli.App) *cobra.Command {
	var f caveatFlags
	cmd := &cobra.Command{
		Use:   "attenuate TOKEN|-",
		Short: "Narrow a capability, without the key",
		Long: `Print the capability with further conditions. The old conditions still hold, so the
new capability never allows more. No key is needed and the capability is not
checked: a node refuses a bad one when it is used.`,
		Example: `  allium token attenuate --op put --bytes 1MiB - < token
  allium token attenuate --expires 10m --obj b3:0af - < token`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			token, err := tokenArg(a, arg[0])
			if err != nil {
				return err
			}
			caveats, err := f.caveats(cmd, a, time.Now())
			if err != nil {
				return err
			}
			if len(caveats) == 0 {
				return failure.NewUsage(
					"give --op, --expires, --obj, --name, --method, --bytes, --rate, --label or --aud",
					"no flag says how to narrow it")
			}
			if token, err = capability.Attenuate(token, caveats...); err != nil {
				return badToken(err)
			}
			return printToken(a, token)
		},
	}
	f.add(cmd)
	cmd.Flag("expires").Usage += " (default: unchanged)"
	return cmd
}

// tokenArg returns the token of an argument; "-" is standard input.
func tokenArg(a *cli.App, arg string) (string, error) {
	if arg == "-" {
		return cli.Token(a, arg)
	}
	return cli.NeededToken(arg, "the argument")
}

// badToken makes the error of a malformed token bad_request: no node refused it.
func badToken(err error) error {
	if capability.RefusalOf(err) == string(capability.Malformed) {
		return status.Errorf(status.BadRequest, "%w", err)
	}
	return err
}

func tokenInspectCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect TOKEN|-",
		Short: "Show what a capability allows",
		Long: `Show what a capability says it allows. This needs no key and verifies nothing: a
false capability can say anything.`,
		Example: `  allium token inspect - < token
  allium token inspect --json - < token`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, arg []string) error {
			token, err := tokenArg(a, arg[0])
			if err != nil {
				return err
			}
			info, err := capability.Inspect(token)
			if err != nil {
				return badToken(err)
			}
			return a.Print(struct {
				capability.Info
				Verified bool `json:"verified"`
			}{info, false}, capabilityText(info, time.Now()))
		},
	}
}

// capabilityText says what a capability allows, at the time now.
func capabilityText(i capability.Info, now time.Time) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, value)
		}
	}
	line("id", i.ID)
	line("branch", i.Branch)
	line("key", strconv.FormatUint(uint64(i.KeyID), 10))
	line("issued", i.Issued.Format(time.RFC3339))
	if !i.Expires.IsZero() {
		when := "expired"
		if i.Expires.After(now) {
			when = "in " + term.Span(i.Expires.Sub(now))
		}
		line("expires", i.Expires.Format(time.RFC3339)+", "+when)
	}
	ops := "any operation"
	if i.Ops != nil {
		ops = strings.Join(i.Ops, ", ")
	}
	line("allows", ops)
	line("objects", i.Object)
	line("names", i.Name)
	line("methods", strings.Join(i.Methods, ", "))
	if i.MaxBytes >= 0 {
		line("bytes", "at most "+term.Bytes(i.MaxBytes)+" in one request")
	}
	if i.Rate > 0 {
		line("rate", "at most "+printable.Count(i.Rate, "request")+" a second")
	}
	line("label", i.Label)
	line("node", i.Node)
	for n, c := range i.Caveats {
		line(fmt.Sprintf("caveat %d", n+1), c)
	}
	if i.Nothing != "" {
		line("nothing", "it allows nothing: "+i.Nothing)
	}
	return b.String() + "not verified: only a node that has the key can check it"
}
