package naming

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/internal/privatefile"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/zones"
)

// maxKeyText is the most bytes that are read where a private key is expected; it is more than
// one has, so that a longer text is refused and not cut.
const maxKeyText = 8 << 10

// ZoneCommand returns `allium zone`.
func ZoneCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "zone",
		Short: "Make zones for names, and give them short names",
		Long: `A name is LABEL.ZONE. A zone is a key (k51…): whoever has its private half publishes
names in the zone. The private keys are in the directory zones of the home
directory. Back them up: without its key, nobody can change a name of a zone again.

A short name stands for a zone: blog.alice in place of blog.k51…. You choose
petnames yourself; others sign zone maps, which names.maps in the configuration
lists. A petname comes before the maps, and the maps come in their order.`,
		Example: `  allium zone new site
  allium zone ls
  allium zone export site -o site.key
  allium zone import --petname alice k51qzi5uqu5djmw2yvf8kk5cdjc1ddc00o4d5sjwi6f79xzcay9j3gkddw5uu4`,
	}
	cmd.AddCommand(zoneNewCommand(a), zoneLsCommand(a), zoneImportCommand(a), zoneExportCommand(a))
	return cmd
}

// openZones opens the names of the home directory.
func openZones(a *cli.App) (*zones.Zones, error) {
	cfg, home, err := a.Load()
	if err != nil {
		return nil, err
	}
	return zones.Open(home, cfg.Names, cfg.Node.Amnesia)
}

// ownZone is a zone whose key is in the home directory.
type ownZone struct {
	Zone    name.Zone `json:"zone"`
	Petname string    `json:"petname,omitempty"`
	KeyFile string    `json:"key_file"`
}

func zoneNewCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "new [PETNAME]",
		Short: "Make a zone: a key with which names are published",
		Long: `Make a key and write it to the directory zones of the home directory. The command
prints the key's public half, which is the zone. Give it to others, so that they
find your names. PETNAME is a short name for this home directory.

Back up the file that the command names. Whoever has it can publish names in the
zone, and without it nobody can.`,
		Example: `  allium zone new
  allium zone new site`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			z, err := openZones(a)
			if err != nil {
				return err
			}
			var short name.Label
			if len(arg) == 1 {
				if short, err = name.ParseShort(arg[0]); err != nil {
					return err
				}
			}
			zone, err := z.New(cmd.Context(), short)
			if err != nil {
				return err
			}
			return printOwn(a, ownZone{zone, short.String(), z.KeyFile(zone)},
				"back it up: whoever has it can publish names in the zone, and without it nobody can")
		},
	}
}

// printOwn prints a zone, where its key is, and advice.
func printOwn(a *cli.App, own ownZone, advice string) error {
	human := own.Zone.String()
	if !a.Quiet {
		human += "\nits private key is in " + own.KeyFile
		if advice != "" {
			human += "\n" + advice
		}
	}
	return a.Print(own, human)
}

func zoneLsCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the zones of this home directory, petnames and zone maps",
		Long: `List every short name with the key of its zone and where it is from: a petname, or
a zone map with its signer. Names further up come first. A zone whose private key
is here is marked with a star, also when it has no short name.`,
		Example: `  allium zone ls
  allium zone ls --json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			z, err := openZones(a)
			if err != nil {
				return err
			}
			own, err := z.Own()
			if err != nil {
				return err
			}
			names, err := z.ShortNames()
			if err != nil {
				return err
			}
			all, problems := names.All(time.Now())
			list := zoneList{Zones: []zoneLine{}}
			named := map[name.Zone]bool{}
			for _, f := range all {
				named[f.Zone] = true
				line := zoneLine{
					Name: f.Short.String(), From: string(f.Origin), Zone: f.Zone.String(),
					Own: slices.Contains(own, f.Zone),
				}
				if f.Origin == zones.FromMap {
					line.Signer, line.NotAfter = f.Signer.String(), &f.NotAfter
				}
				list.Zones = append(list.Zones, line)
			}
			for _, zone := range own {
				if !named[zone] {
					list.Zones = append(list.Zones,
						zoneLine{From: string(zones.FromKey), Zone: zone.String(), Own: true})
				}
			}
			return errors.Join(append([]error{a.Print(list, list.String(a.Quiet))}, problems...)...)
		},
	}
}

func zoneImportCommand(a *cli.App) *cobra.Command {
	var petname string
	cmd := &cobra.Command{
		Use:   "import ZONE|FILE|-",
		Short: "Add a petname for a zone, or the private key of a zone",
		Long: `With the key of a zone (k51… or 12D3…), give that zone a petname. With a file, or -
for standard input, take in the private key that "allium zone export" wrote; a
petname is optional then.

A petname is refused if it looks like another short name. To change or remove one,
edit the file petnames in the home directory.`,
		Example: `  allium zone import --petname alice k51qzi5uqu5djmw2yvf8kk5cdjc1ddc00o4d5sjwi6f79xzcay9j3gkddw5uu4
  allium zone import --petname site site.key
  ssh laptop allium zone export site | allium zone import --petname site -`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			z, err := openZones(a)
			if err != nil {
				return err
			}
			var short name.Label
			if cmd.Flags().Changed("petname") {
				if short, err = name.ParseShort(petname); err != nil {
					return err
				}
			}
			if zone, err := name.ParseZone(arg[0]); err == nil {
				if short.IsZero() {
					return failure.NewUsage("name the zone with --petname NAME", "--petname is missing")
				}
				if err := z.SetPetname(cmd.Context(), short, zone); err != nil {
					return err
				}
				human := ""
				if !a.Quiet {
					human = fmt.Sprintf("%s is the petname of %s", short, zone)
				}
				return a.Print(map[string]any{"petname": short, "zone": zone}, human)
			}
			key, err := keyText(a, arg[0])
			if err != nil {
				return err
			}
			zone, err := z.Import(cmd.Context(), key, short)
			if err != nil {
				return err
			}
			return printOwn(a, ownZone{zone, short.String(), z.KeyFile(zone)}, "")
		},
	}
	cmd.Flags().StringVar(&petname, "petname", "", "short name of the zone in this home directory (default: none)")
	return cmd
}

// keyText reads a private key from a file, which others may not be able to read, or from
// standard input.
func keyText(a *cli.App, file string) ([]byte, error) {
	if file == "-" {
		p, err := io.ReadAll(io.LimitReader(a.Stdin, maxKeyText))
		return p, failure.In("standard input", err)
	}
	p, err := privatefile.Read(file, maxKeyText, privatefile.NoAccess)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(status.BadRequest,
			"%s is neither the key of a zone (k51…) nor a file; `allium zone ls` shows keys", term.Quote(file))
	}
	return p, err
}

func zoneExportCommand(a *cli.App) *cobra.Command {
	var output string
	var asMap bool
	var days int
	cmd := &cobra.Command{
		Use:   "export ZONE",
		Short: "Write the private key of a zone, or the petnames as a signed zone map",
		Long: `Write the private key of a zone to a new file that only you can read, or to a pipe;
a private key is never printed to a terminal. ZONE is a key or a short name. Other
libp2p programs read the same format.

With --map, sign the petnames of this home directory with the key of ZONE instead.
The result is not secret. Others put it into a file and its signer into names.maps:

  [names]
  maps = ["SIGNER=FILE"]`,
		Example: `  allium zone export site -o site.key
  allium zone export site | ssh laptop allium zone import --petname site -
  allium zone export --map --days 90 site -o team.map`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			if cmd.Flags().Changed("days") && !asMap {
				return failure.NewUsage("give --map too", "--days is for a zone map")
			}
			if err := cli.CheckDays(days); err != nil {
				return err
			}
			z, err := openZones(a)
			if err != nil {
				return err
			}
			names, err := z.ShortNames()
			if err != nil {
				return err
			}
			found, err := names.Zone(arg[0], time.Now())
			if err != nil {
				return err
			}
			if asMap {
				return exportMap(a, z, found.Zone, time.Duration(days)*24*time.Hour, output)
			}
			return exportKey(a, z, found.Zone, output)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "-", "file to write; - is standard output")
	f.BoolVar(&asMap, "map", false, "sign the petnames as a zone map instead")
	f.IntVar(&days, "days", 90, "days until the zone map expires, 1 to 365")
	return cmd
}

// exportKey writes the private key of a zone to a new file, or to standard output.
func exportKey(a *cli.App, z *zones.Zones, zone name.Zone, output string) error {
	if f, ok := a.Stdout.(*os.File); ok && output == "-" && term.IsTerminal(f) {
		return failure.NewUsage("name a file with --output, or write to a pipe",
			"a private key is not printed to a terminal")
	}
	if err := cli.CheckNewFile(output); err != nil {
		return failure.In("--output", err)
	}
	key, err := z.Export(zone)
	if err != nil {
		return err
	}
	if output == "-" {
		line := strings.TrimSpace(string(key))
		return a.Print(map[string]any{"zone": zone, "private_key": line}, line)
	}
	if err := privatefile.Create(output, key); errors.Is(err, fs.ErrExist) {
		return status.Errorf(status.Conflict,
			"%s exists, and a file is not replaced by a key; name another file", output)
	} else if err != nil {
		return failure.In("--output", err)
	}
	return printOwn(a, ownZone{zone, "", output}, "keep it where nobody else can read it")
}

// exportMap writes the petnames as a zone map that zone signs.
func exportMap(a *cli.App, z *zones.Zones, zone name.Zone, life time.Duration, output string) error {
	content, m, err := z.SignMap(zone, life, time.Now())
	if err != nil {
		return err
	}
	signed := zoneMap{
		Signer: zone.ID().String(), Seq: m.Seq, NotAfter: m.NotAfter, Names: len(m.Entries), Map: string(content),
	}
	if output == "-" {
		return a.Print(signed, string(content[:len(content)-1]))
	}
	if err := cli.ReplaceFile(output, content); err != nil {
		return failure.In("--output", err)
	}
	human := ""
	if !a.Quiet {
		human = signed.String() + "\nwritten to " + output
	}
	return a.Print(signed, human)
}

// zoneLine is a zone and where its short name is from.
type zoneLine struct {
	Name     string     `json:"name,omitempty"`
	From     string     `json:"from"` // petname, map, or key for a zone without a short name
	Zone     string     `json:"zone"`
	Own      bool       `json:"own"` // the private key is in the home directory
	Signer   string     `json:"signer,omitempty"`
	NotAfter *time.Time `json:"not_after,omitempty"` // end of the map
}

// zoneList is the list of zones of a home directory.
type zoneList struct {
	Zones []zoneLine `json:"zones"`
}

// String returns the list, with quiet only the keys, each once.
func (l zoneList) String(quiet bool) string {
	if quiet {
		var keys []string
		seen := map[string]bool{}
		for _, z := range l.Zones {
			if !seen[z.Zone] {
				seen[z.Zone] = true
				keys = append(keys, z.Zone)
			}
		}
		return strings.Join(keys, "\n")
	}
	if len(l.Zones) == 0 {
		return "no zones; `allium zone new` makes one"
	}
	width := len("name")
	for _, z := range l.Zones {
		width = max(width, len([]rune(z.Name)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  own  %-62s  from", width, "name", "zone")
	for _, z := range l.Zones {
		own := ""
		if z.Own {
			own = "*"
		}
		fmt.Fprintf(&b, "\n%-*s  %-3s  %-62s  %s", width, cmp.Or(z.Name, "-"), own, z.Zone, z.From)
		if z.Signer != "" {
			fmt.Fprintf(&b, " of %s until %s", z.Signer, z.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return b.String()
}

// zoneMap is a signed zone map.
type zoneMap struct {
	Signer   string    `json:"signer"` // peer id
	Seq      uint64    `json:"seq"`
	NotAfter time.Time `json:"not_after"`
	Names    int       `json:"names"`
	Map      string    `json:"map"`
}

// String describes the map without its text.
func (m zoneMap) String() string {
	return fmt.Sprintf("signed by  %s\nuntil      %s\nsequence   %d\nnames      %d",
		m.Signer, m.NotAfter.Format(time.RFC3339), m.Seq, m.Names)
}
