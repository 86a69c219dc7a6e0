package naming

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"allium/cmd/allium/adding"
	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/printable"
	"allium/node/files/watch"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/zones"
)

// firstPetname is the petname of the zone that publish makes in a home directory without zones.
const firstPetname = "me"

// publishOptions are the flags of publish.
type publishOptions struct {
	as    string
	watch bool
	ttl   time.Duration
	life  string
	onBad string
}

// PublishCommand returns `allium publish`.
func PublishCommand(a *cli.App) *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:   "publish PATH",
		Short: "Add and pin a file or directory, and publish a name for it",
		Long: `Add a file or directory, pin it, and publish a name that stands for it: add, pin and
name publish in one step. It prints the address, the whole name LABEL.ZONE, the
short one, and the URLs if the node has a gateway: of the path, of a host of its own,
where scripts run, and of domains. LABEL is the base name of PATH, unless --as gives another.

A home directory without a zone gets one, and the command says where its private key
is. Back that file up: without it, nobody can change the name again.

The pin has the label "name:LABEL.ZONE". Once the new address is published, the command
removes the pins with that label from older addresses, which it set itself. Readers who
still remember an older address get it as long as the store has space for it.

With --watch the command goes on, and publishes again when files change. It waits until
changes pause for half a second, and 10 seconds after a publication, also one before it
began, because peers relay one announcement of a name in that time. It reads the whole tree for each
publication, but only those files that have changed. Where the kernel cannot watch so
many directories it looks at the tree every few seconds, and says so. It waits for a
node that restarts. On a terminal its state is on one line; else each publication is a
line.`,
		Example: `  allium publish ./photos
  allium publish ./site --as blog
  allium publish ./site --as blog.work --watch
  allium publish report.pdf --as report --ttl 5m`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return a.Watch(cmd.Context(), func(ctx context.Context, n *client.Client) error {
				return publish(ctx, a, n, arg[0], o)
			})

		},
	}
	f := cmd.Flags()
	f.StringVar(&o.as, "as", "",
		"name to publish, LABEL or LABEL.ZONE (default: the base name of PATH, in the only own zone)")
	f.BoolVar(&o.watch, "watch", false, "go on, and publish again when files change")
	f.DurationVar(&o.ttl, "ttl", name.DefaultTTL,
		"time that others may keep an answer before they ask again, 5s to 24h")
	f.StringVar(&o.life, "life", "7d", "time until the record expires if it is not signed again, 10m to 30d")
	f.StringVar(&o.onBad, "on-bad-entry", string(api.RefuseBadEntries),
		"what to do about entries that cannot be added: refuse (publish nothing) or skip")
	return cmd
}

// publication is the content that publish publishes, again and again with --watch.
type publication struct {
	path    string
	onBad   api.OnBadEntry
	request api.PublishRequest // without a value
	label   string             // of the pins
	newZone *ownZone           // the zone that was made for it; nil: there was one
}

// publish is the command.
func publish(ctx context.Context, a *cli.App, n *client.Client, path string, o publishOptions) error {
	p, err := newPublication(ctx, a, n, path, o)
	if err != nil {
		return err
	}
	if o.watch {
		return publishWatched(ctx, a, n, p)
	}
	done, err := publishNow(ctx, a, n, p, api.OwnName{}, 0)
	if err != nil {
		return err
	}
	return a.Print(done, done.String(a.Quiet))
}

// newPublication checks the arguments of publish, and makes a zone if there is none.
func newPublication(
	ctx context.Context, a *cli.App, n *client.Client, path string, o publishOptions,
) (publication, error) {
	p := publication{path: path}
	var err error
	if p.onBad, err = api.ParseOnBadEntry(o.onBad); err != nil {
		return p, failure.In("--on-bad-entry", err)
	}
	if p.request.LifeMS, err = lifeMS(o.life); err != nil {
		return p, err
	}
	if o.ttl < name.MinTTL || o.ttl > name.MaxTTL || o.ttl%time.Second != 0 {
		return p, failure.NewUsage("give whole seconds from 5s to 24h", "--ttl is %s", o.ttl)
	}
	p.request.TTLMS = o.ttl.Milliseconds()
	as := o.as
	if as == "" {
		label, err := labelOf(path)
		if err != nil {
			return p, err
		}
		as = label.String()
	}
	disk, err := adding.Disk(a, []string{path}, p.onBad)
	if err != nil {
		return p, err
	}
	if _, err := disk.Check(ctx); err != nil { // before a key is made
		return p, err
	}
	if _, err := n.Keep(ctx, []b3.Root{{}}); status.Of(err) == status.Amnesia {
		return p, status.Errorf(status.Amnesia,
			"node.amnesia keeps everything in RAM, and a name needs the key of a zone "+
				"and a record on disk; turn it off, or publish from another home directory")
	} else if err != nil {
		return p, err
	}
	p.request.Name, err = n.ExpandName(ctx, as)
	if status.Of(err) == status.NotFound && a.API == "" && !strings.Contains(as, ".") {
		if p.newZone, err = firstZone(ctx, a); err == nil {
			p.request.Name, err = n.ExpandName(ctx, as)
		}
	}
	p.label = "name:" + p.request.Name
	return p, failure.In("--as", err)
}

// labelOf returns the label that a path suggests.
func labelOf(path string) (name.Label, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return name.Label{}, err
	}
	base := filepath.Base(abs)
	label, err := name.ParseLabel(base)
	var bad *name.LabelError
	if !errors.As(err, &bad) {
		return label, err
	}
	do := "give a label with --as LABEL"
	if like, err := name.ParseLabel(plainLabel(base)); err == nil {
		do = "give one with --as, such as --as " + like.String()
	}
	return label, failure.NewUsage(do, "%s cannot be the label of a name: %s", term.Quote(base), bad.Reason())
}

// plainLabel returns the letters and digits of the first part of a file's name, joined by hyphens.
func plainLabel(base string) string {
	stem := strings.TrimLeft(base, ".")
	if i := strings.LastIndexByte(stem, '.'); i > 0 {
		stem = stem[:i]
	}
	words := strings.FieldsFunc(stem, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}

// firstZone makes a zone in a home directory that has none. Its petname is left out if that is
// taken, or looks like another.
func firstZone(ctx context.Context, a *cli.App) (*ownZone, error) {
	z, err := openZones(a)
	if err != nil {
		return nil, err
	}
	if own, err := z.Own(); err != nil || len(own) > 0 {
		return nil, err // another command has made one meanwhile
	}
	short, err := name.ParseShort(firstPetname)
	if err != nil {
		return nil, err
	}
	zone, err := z.New(ctx, short)
	if status.Of(err) == status.Conflict {
		short = name.Label{}
		zone, err = z.New(ctx, short)
	}
	if err != nil {
		return nil, err
	}
	return newOwnZone(z, zone, short), nil
}

func newOwnZone(z *zones.Zones, zone name.Zone, short name.Label) *ownZone {
	return &ownZone{zone, short.String(), z.KeyFile(zone)}
}

// publishNow adds and pins the path, and publishes its address, unless old has that value. If the
// name of the result is set, the address was published, also beside an error. With a gap it does nothing
// and returns [watch.Postponed] until that has passed since old was published.
func publishNow(
	ctx context.Context, a *cli.App, n *client.Client, p publication, old api.OwnName, gap time.Duration,
) (published, error) {
	done := published{At: time.Now().UTC().Truncate(time.Millisecond), Path: p.path}
	if p.newZone != nil {
		done.NewZone, done.KeyFile = p.newZone.Zone.String(), p.newZone.KeyFile
	}
	since := time.Since(time.UnixMilli(int64(old.Seq))) //nolint:gosec // Unix milliseconds
	if since >= 0 && since < gap {                      // below zero the clock was set back
		return done, watch.Postponed{Until: time.Now().Add(gap - since)}
	}
	o := api.AddOptions{Label: p.label, OnBadEntry: p.onBad}
	added, err := adding.AddPath(ctx, a, n, p.path, o, func(*api.AddNotes) {})
	if err != nil {
		return done, err
	}
	done.Root, done.Files, done.Bytes, done.Hashed = added.Root, added.Files, added.Bytes, added.Hashed
	done.Notes = added.Notes
	r := p.request
	if r.Value = added.Root.String(); r.Value == old.Value {
		done.Name, done.Unchanged = old, true
		done.webPlaces = placesOf(ctx, n, p.path, old.Name, added)
		return done, nil
	}
	if done.Name, err = n.PublishName(ctx, r); err != nil {
		return done, err
	}
	done.webPlaces = placesOf(ctx, n, p.path, done.Name.Name, added)
	return done, unpinOthers(ctx, n, p.label, added.Root)
}

// placesOf returns where browsers find what a name stands for. It was added from path.
func placesOf(ctx context.Context, n api.Node, path, name string, added api.Added) webPlaces {
	g := adding.KnownGateway(ctx, n)
	links := g.NameLinks(name)
	w := webPlaces{URL: strings.Join(links[:min(1, len(links))], ""), ofName: links}
	w.Links = slices.Concat(links, g.RootLinks(added.Root, added.Name, added.Kind == api.Directory))
	if added.Kind == api.Directory {
		w.Mistake = siteMistake(path)
	}
	return w
}

// unpinOthers removes the pins with a label from all addresses but one.
func unpinOthers(ctx context.Context, n api.Node, label string, but b3.Root) error {
	var old []b3.Root
	for pin, err := range n.Pins(ctx) {
		if err != nil {
			return err
		}
		if pin.Label == label && pin.Root != but {
			old = append(old, pin.Root)
		}
	}
	for _, root := range old {
		if err := n.Unpin(ctx, root.String(), label); err != nil && status.Of(err) != status.NotFound {
			return err
		}
	}
	return nil
}

// published is a path that was added, pinned and published.
type published struct {
	At     time.Time   `json:"at"`
	Root   b3.Root     `json:"root"`
	Path   string      `json:"path"`
	Files  int64       `json:"files"`  // at and below it
	Bytes  int64       `json:"bytes"`  // their content
	Hashed int64       `json:"hashed"` // files that were read; the others have not changed
	Name   api.OwnName `json:"name"`
	webPlaces
	Unchanged bool          `json:"unchanged,omitempty"` // the name stood for the address already
	Notes     *api.AddNotes `json:"notes,omitempty"`     // entries that were left out or renamed
	NewZone   string        `json:"new_zone,omitempty"`  // the zone that was made for it
	KeyFile   string        `json:"key_file,omitempty"`  // the private key of that
}

// webPlaces are the URLs of a publication at the node's gateway, none without one.
type webPlaces struct {
	URL   string   `json:"url,omitempty"`   // the first of the name
	Links []string `json:"links,omitempty"` // those of the name, then those of the address
	// Mistake names a wrong line in a website's rules, because of which gateways do not show it at its host.
	Mistake string   `json:"site_mistake,omitempty"`
	ofName  []string // URL, the host of the name's own, where scripts run, and domains
}

// String describes a publication in several lines. With quiet it is the whole name.
func (p published) String(quiet bool) string {
	if quiet {
		return p.Name.Name
	}
	s := p.Root.String() + " " + printable.Name(p.Path) + "\n" + Published(p.Name, false)
	for _, url := range p.ofName {
		s += "\n" + "url         " + url
	}
	return s + p.mistake() + p.zone()
}

// zone says where the key of a new zone is.
func (p published) zone() string {
	if p.NewZone == "" {
		return ""
	}
	return "\na new zone was made for it; its private key is in " + p.KeyFile +
		"\nback it up: whoever has it can publish names in the zone, and without it nobody can"
}

// Line describes a publication in one line; a new zone is told in further ones. With quiet it is
// the address.
func (p published) Line(quiet bool) string {
	if quiet {
		return p.Root.String()
	}
	s := term.Stamp(p.At) + "  " + p.Root.String() + "  "
	s += fmt.Sprintf("%s  number %d, %s, ", p.Name.Name, p.Name.Seq, term.Bytes(p.Bytes))
	if p.Unchanged {
		s += "published before"
	} else if p.Name.Peers > 0 {
		s += printable.Count(p.Name.Peers, "peer") + " took it"
	} else {
		s += "no peer took it yet"
	}
	return s + p.mistake() + p.zone()
}
