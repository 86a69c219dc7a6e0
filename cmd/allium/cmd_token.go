package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/internal/limits"
	"allium/node/capabilities"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// The life of a capability.
const (
	defaultLife = 30 * 24 * time.Hour
	longestLife = 366 * 24 * time.Hour
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, narrow, read and revoke capabilities",
		Long: `A capability lets its bearer change something on a node over HTTP: what, until
when, and within which bounds, is written in it. It is minted with a key that
the node's home directory holds (capability.keys, made by the first mint), and
anybody who has one can narrow it further, without the key.

Whoever has a capability may use it: hand it over as a file or on standard
input, not in an argument that the list of processes shows.`,
		Example: `  umask 077
  allium token mint --op put --expires 24h > token
  allium token attenuate --bytes 10MiB - < token > less
  (printf 'Authorization: Bearer '; cat less) | curl -H @- -X POST -T photo.jpg http://127.0.0.1:8080/o
  allium token revoke - < token`,
	}
	cmd.AddCommand(a.tokenMintCommand(), a.tokenAttenuateCommand(), a.tokenInspectCommand(), a.tokenRevokeCommand(), a.tokenKeyCommand())
	return cmd
}

// capabilities are those of the home directory.
func (a *app) capabilities() (capabilities.Files, error) {
	home, err := a.homeDir()
	return capabilities.Open(home), err
}

// caveatFlags are the flags that narrow a capability.
type caveatFlags struct {
	op, method                            []string
	obj, name, bytes, expires, aud, label string
	rate                                  int64
}

func (f *caveatFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.op, "op", nil, "operations that it allows: "+opNames()+", or all")
	fl.StringVar(&f.expires, "expires", "", "how long it holds (24h, 30d), or a time such as 2026-01-02T15:04:05Z")
	fl.StringVar(&f.obj, "obj", "", "only objects whose address begins like this (b3:…)")
	fl.StringVar(&f.name, "name", "", "only names that begin like this")
	fl.StringSliceVar(&f.method, "method", nil, "only these HTTP methods")
	fl.StringVar(&f.bytes, "bytes", "", "at most so many bytes in one request (10MiB)")
	fl.Int64Var(&f.rate, "rate", 0, "at most so many requests a second")
	fl.StringVar(&f.label, "label", "", "only pins with this label, which is also what they get that ask for none")
	fl.StringVar(&f.aud, "aud", "", "only this node: a peer id, or self for the one of the home directory")
}

func opNames() string {
	var names []string
	for _, o := range capability.Ops() {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// caveats are the flags that were given as caveats, the expiry first.
func (f *caveatFlags) caveats(cmd *cobra.Command, c capabilities.Files, now time.Time) ([]capability.Caveat, error) {
	var texts []string
	given := cmd.Flags().Changed
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
				return nil, status.Errorf(status.BadRequest, "--op: there is no operation %q; known are %s, and all", op, opNames())
			}
		}
		texts = append(texts, "op in "+ops)
	}
	for _, v := range []struct{ flag, text string }{
		{"obj", "obj ^= " + f.obj}, {"name", "name ^= " + f.name}, {"method", "method in " + strings.Join(f.method, ",")},
		{"bytes", "bytes <= " + f.bytes}, {"rate", "rate <= " + strconv.FormatInt(f.rate, 10)}, {"label", "label = " + f.label},
	} {
		if given(v.flag) {
			texts = append(texts, v.text)
		}
	}
	if given("aud") {
		peer, err := c.Audience(f.aud)
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

// parseExpiry reads a time, or a life from now on, which may be in days.
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
			return until, status.Errorf(status.BadRequest, "--expires is %q; write 24h, 30d or a time such as 2026-01-02T15:04:05Z", s)
		}
		until = now.Add(life)
	}
	switch {
	case !until.After(now):
		return until, status.Errorf(status.BadRequest, "--expires is %q, and that is past", s)
	case until.Sub(now) > longestLife:
		return until, status.Errorf(status.BadRequest, "--expires is %q; a capability holds for a year (366d) at most", s)
	}
	return until, nil
}

func (a *app) tokenMintCommand() *cobra.Command {
	var f caveatFlags
	cmd := &cobra.Command{
		Use:   "mint --op OP[,OP…]",
		Short: "Make a capability",
		Long: `Make a capability with the key of the home directory, and print it. It works
with and without a running node; the first one makes the key, which a running
node takes up at once.`,
		Example: `  allium token mint --op put,pin --expires 24h
  allium token mint --op get,put --bytes 10MiB --rate 20 --aud self
  allium token mint --op put,pin,unpin --label photos
  TOKEN=$(allium token mint --op drain --expires 5m)`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("op") {
				return status.Errorf(status.BadRequest, "--op is missing: say what the capability allows, of %s, or all", opNames())
			}
			if !cmd.Flags().Changed("expires") {
				if err := cmd.Flags().Set("expires", defaultLife.String()); err != nil {
					return err
				}
			}
			c, err := a.capabilities()
			if err != nil {
				return err
			}
			caveats, err := f.caveats(cmd, c, time.Now())
			if err != nil {
				return err
			}
			token, err := c.Mint(cmd.Context(), caveats...)
			if err != nil {
				return err
			}
			return a.printToken(token)
		},
	}
	f.add(cmd)
	cmd.Flag("expires").Usage += " (default 30d)"
	return cmd
}

// printToken prints a token, and with --json what it says.
func (a *app) printToken(token string) error {
	info, err := capability.Inspect(token)
	if err != nil {
		return err
	}
	return a.print(struct {
		Token string `json:"token"`
		capability.Info
	}{token, info}, token)
}

func (a *app) tokenAttenuateCommand() *cobra.Command {
	var f caveatFlags
	cmd := &cobra.Command{
		Use:   "attenuate TOKEN|-",
		Short: "Narrow a capability, without the key",
		Long: `Print the capability with further conditions. All that it has must hold as
well, so the new one never allows more. No key is needed, and none is looked
for: whether the capability is good shows when it is used.`,
		Example: `  allium token attenuate --op put --bytes 1MiB - < token
  allium token attenuate --expires 10m --obj b3:0af - < token`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			token, err := a.tokenArg(arg[0])
			if err != nil {
				return err
			}
			c, err := a.capabilities()
			if err != nil {
				return err
			}
			caveats, err := f.caveats(cmd, c, time.Now())
			if err != nil {
				return err
			}
			if len(caveats) == 0 {
				return status.Errorf(status.BadRequest, "say how to narrow it: --op, --expires, --obj, --name, --method, --bytes, --rate, --label or --aud")
			}
			if token, err = capability.Attenuate(token, caveats...); err != nil {
				return badToken(err)
			}
			return a.printToken(token)
		},
	}
	f.add(cmd)
	return cmd
}

// tokenArg is an argument that is a token, or "-" for standard input.
func (a *app) tokenArg(arg string) (string, error) {
	if arg == "-" {
		return a.token(arg)
	}
	return neededToken(arg, "the argument")
}

// badToken is the error of an argument that is no token: nobody was refused.
func badToken(err error) error {
	if capability.RefusalOf(err) == string(capability.Malformed) {
		return status.Errorf(status.BadRequest, "%w", err)
	}
	return err
}

func (a *app) tokenInspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect TOKEN|-",
		Short: "Say what a capability allows",
		Long: `Say what a capability allows, without the key: nothing of it is verified, and
whoever made it may have written anything.`,
		Example: `  allium token inspect - < token
  allium token inspect --json - < token`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, arg []string) error {
			token, err := a.tokenArg(arg[0])
			if err != nil {
				return err
			}
			info, err := capability.Inspect(token)
			if err != nil {
				return badToken(err)
			}
			return a.print(struct {
				capability.Info
				Verified bool `json:"verified"`
			}{info, false}, tokenLines(info, time.Now()))
		},
	}
}

// span is a time for people, rounded: 30 days, 1 day 4 hours, 59 minutes, 5
// seconds.
func span(d time.Duration) string {
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}}
	for i, u := range units { // what is below a tenth goes
		if d >= 10*u.of || i == len(units)-1 {
			d = d.Round(u.of)
			break
		}
		if d >= u.of {
			d = d.Round(units[i+1].of)
			break
		}
	}
	for i, u := range units {
		n := d / u.of
		if n == 0 {
			continue
		}
		text := plural(int(n), u.name)
		if i+1 < len(units) && n < 10 {
			if m := (d % u.of) / units[i+1].of; m > 0 {
				text += " " + plural(int(m), units[i+1].name)
			}
		}
		return text
	}
	return "less than a second"
}

// tokenLines is a capability for people, as of now.
func tokenLines(i capability.Info, now time.Time) string {
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
			when = "in " + span(i.Expires.Sub(now))
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
		line("bytes", "at most "+limits.Bytes(i.MaxBytes).Human()+" in one request")
	}
	if i.Rate > 0 {
		line("rate", fmt.Sprintf("at most %d requests a second", i.Rate))
	}
	line("label", i.Label)
	line("node", i.Node)
	for n, c := range i.Caveats {
		line(fmt.Sprintf("caveat %d", n+1), c)
	}
	if i.Nothing != "" {
		line("nothing", "it allows nothing: "+i.Nothing)
	}
	return b.String() + "not verified: only a node that has the key can tell whether this is true"
}
