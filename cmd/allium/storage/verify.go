package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

// verify prints each bad object when it is found, then open damage of the store if
// key is empty, which is the whole store, and a summary at the end.
func verify(ctx context.Context, a *cli.App, s api.Store, key string, o api.VerifyOptions) error {
	report, finish := a.Progress("verifying")
	defer finish()
	var good, bad, repaired, bytes int64
	for v, err := range s.Verify(ctx, key, o) {
		if err != nil {
			return err
		}
		switch {
		case v.Error != nil && !v.Again:
			bad++
		case v.Error == nil:
			good++
			bytes += v.Size
			if report != nil {
				report(api.Progress{Objects: good, Bytes: bytes})
			}
		}
		if v.Repaired {
			repaired++
		}
		if err := a.Print(v, verifiedText(v)); err != nil {
			return err
		}
	}
	open, damage, err := openDamage(ctx, a, s, key)
	if err != nil {
		return err
	}
	finish()
	if a.JSON {
		var last verifySum
		last.Sum.Objects, last.Sum.Bytes, last.Sum.Bad = good+bad, bytes, bad
		last.Sum.Repaired, last.Sum.Open = repaired, open
		if err := a.Print(last, ""); err != nil {
			return err
		}
	}
	if bad > 0 {
		return errors.Join(failure.Found(status.Errorf(status.Corrupt, "%s; "+
			"fetch again with `allium verify --repair` or `allium get`", damagedOf(bad, good+bad))), damage)
	}
	if damage != nil || a.Quiet || a.JSON {
		return damage
	}
	mended := ""
	if repaired > 0 {
		mended = fmt.Sprintf(" (%d of them repaired)", repaired)
	}
	return a.Print(nil, fmt.Sprintf("%s, %s: every byte proved%s",
		printable.Count(good, "object"), term.Bytes(bytes), mended))
}

// damagedOf says how many objects of a store are bad.
func damagedOf(bad, all int64) string {
	are := "are"
	if bad == 1 {
		are = "is"
	}
	return fmt.Sprintf("%s of %d %s damaged or missing, and not served", printable.Count(bad, "object"), all, are)
}

// verifySum is the last line of JSON, among lines about objects.
type verifySum struct {
	Sum struct {
		Objects  int64 `json:"objects"` // good and bad
		Bytes    int64 `json:"bytes"`   // of the good ones
		Bad      int64 `json:"bad"`
		Repaired int64 `json:"repaired"`
		Open     int   `json:"open"` // open findings of the list of damage
	} `json:"sum"`
}

// damageOf is a line of JSON about damage, among lines about objects.
type damageOf struct {
	Damage api.Damage `json:"damage"`
}

// openDamage prints the open damage of the store, and returns how much there is and the error that says so.
// It does nothing unless key is empty, which is the whole store.
func openDamage(ctx context.Context, a *cli.App, s api.Store, key string) (open int, damage, err error) {
	if key != "" {
		return 0, nil, nil
	}
	r, err := s.Damage(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, d := range r.Damage {
		if d.State != "open" || d.Kind == "object" { // verify has printed the objects
			continue
		}
		if err := a.Print(damageOf{d}, damageText(d)); err != nil {
			return 0, nil, err
		}
	}
	r.Objects = 0
	return r.Open, damageOpen(r), nil
}

// damageText is one finding.
func damageText(d api.Damage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-6s %s", d.State, d.Kind, d.File)
	if d.Length > 0 {
		fmt.Fprintf(&b, " %d+%d", d.Offset, d.Length)
	}
	if !d.Found.IsZero() {
		fmt.Fprintf(&b, "  found %s", minuteOf(d.Found))
	}
	fmt.Fprintf(&b, "  %s", d.Cause)
	if d.Left > 0 {
		fmt.Fprintf(&b, "; %s of records are lost, and nobody knows which", term.Bytes(d.Left))
	}
	for i, root := range d.Roots {
		if i == 0 {
			b.WriteString("; affects")
		}
		address := root.String()
		b.WriteString(" " + address[:7] + "…" + address[len(address)-4:])
	}
	return b.String()
}

// verifiedText is the result for one object, and empty if all of its bytes are good.
func verifiedText(v api.Verified) string {
	where := ""
	if v.Pin != nil {
		where = ", pinned"
		if v.Path != "" {
			where = fmt.Sprintf(", %s/%s of a pin", v.Pin.Root, v.Path)
		}
	}
	switch {
	case v.Repaired:
		return fmt.Sprintf("%s repaired: fetched again and every byte proved%s", v.Root, where)
	case v.Error != nil && v.Again:
		return fmt.Sprintf("%s %s%s", v.Root, v.Error.Reason, where)
	case v.Error != nil:
		return fmt.Sprintf("%s %s%s: %s", v.Root, v.Error.Reason, where, v.Error.Message)
	}
	return ""
}

// VerifyCommand returns `allium verify`.
func VerifyCommand(a *cli.App) *cobra.Command {
	var all bool
	var o api.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify [KEY]",
		Short: "Read objects again and prove every byte",
		Long: `Read an object, everything below a directory, or the whole store from the disk and
prove every 64 KiB group against its address. The command lists each object that is
damaged or missing, and exits with 65. With --repair the running node first fetches
these objects again from its peers, and the exit code is 65 only if one stays bad.

With --json the last line is {"sum":…}: objects, bytes of the good ones, bad, repaired,
and open findings of damage.

--all also follows the pins: it lists each missing object below a pin with the path
to it, and a running node fetches it. It lists open damage of the store too (see
allium store damage --help).`,
		Example: "  allium verify $ADDRESS\n  allium verify --all\n  allium verify --all --repair",
		Args:    cli.OneUnless(&all),
		RunE: func(cmd *cobra.Command, arg []string) error {
			key := ""
			if !all {
				key = arg[0]
			}
			return a.WithStore(cmd.Context(), func(s api.Store) error {
				return verify(cmd.Context(), a, s, key, o)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "verify every object in the store")
	cmd.Flags().BoolVar(&o.Repair, "repair", false, "fetch damaged and missing objects again; needs a running node")
	return cmd
}
