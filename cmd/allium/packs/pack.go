// Package packs has the command pack, which serves the map tiles of one file.
package packs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/settings"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/pack"
	"allium/internal/printable"
	"allium/node/edge"
	"allium/node/home"
	"allium/protocols/status"
)

// PackCommand returns `allium pack`.
func PackCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Serve maps: mount, list and inspect packs of map tiles",
		Long: `A pack is one file with the tiles of a map, in the format PMTiles or MBTiles. A node
verifies it and serves its tiles, their description (TileJSON) and a page with the map
below /edge/packs/NAME on its gateway.

A pack is a file below edge.dir, or what an address or a name stands for. Every tile of
the latter is proved, and comes from peers if this node does not have it.`,
		Example: `  allium pack inspect city.pmtiles
  allium pack mount city $ADDRESS
  allium pack ls`,
	}
	cmd.AddCommand(packMountCommand(a), packUnmountCommand(a), packListCommand(a), packInspectCommand(a))
	return cmd
}

func packMountCommand(a *cli.App) *cobra.Command {
	var temporary bool
	cmd := &cobra.Command{
		Use:   "mount NAME FILE|KEY",
		Short: "Verify a pack and serve it under a name",
		Long: `Verify a pack and serve it under a name, in place of what the name stood for. The
running node mounts it at once. The configuration gets it as edge.packs.NAME, so that the
node mounts it again when it starts; --temporary leaves the configuration as it is, and so
does --api.

A FILE lies below edge.dir. A KEY is an address or a name, with or without a path below it.
A pack that a name stands for is followed: a new record mounts the new pack. An MBTiles
pack of a KEY is fetched whole first; a PMTiles pack is not.`,
		Example: `  allium pack mount city ~/.allium/packs/city.pmtiles
  allium pack mount city $ADDRESS
  allium pack mount world maps.k51qzi5uqu5d/world.pmtiles --temporary`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return mountPack(cmd.Context(), a, arg[0], arg[1], temporary)
		},
	}
	cmd.Flags().BoolVar(&temporary, "temporary", false,
		"serve it until the node ends; the configuration stays as it is")
	return cmd
}

// mountPack mounts what, a file or a key, on the node if one runs, and writes it to the configuration.
func mountPack(ctx context.Context, a *cli.App, name, what string, temporary bool) error {
	r, err := packSource(a, name, what)
	if err != nil {
		return err
	}
	p, err := mountNow(ctx, a, r)
	running := !errors.Is(err, client.ErrNotRunning) || a.API != ""
	if running && err != nil {
		return err
	}
	if !running {
		if temporary {
			return err
		}
		if p, err = mountLater(ctx, a, r); err != nil {
			return err
		}
	}
	if !temporary && a.API == "" {
		if _, err := configurePack(ctx, a, r); err != nil {
			return status.Errorf(status.Of(err),
				"the pack %s is not in the configuration, so a node serves it no longer than it runs: %w", name, err)
		}
	}
	return a.Print(p, a.Loud(packText(p)))
}

// mountNow mounts a pack on the running node.
func mountNow(ctx context.Context, a *cli.App, r api.MountRequest) (api.Pack, error) {
	n, err := a.Node()
	if err != nil {
		return api.Pack{}, err
	}
	defer n.Close()
	report, finish := a.Progress("mounting")
	defer finish()
	return n.MountPack(ctx, r, report)
}

// mountLater verifies a file that the node will mount when it starts. Nobody can verify a key before.
func mountLater(ctx context.Context, a *cli.App, r api.MountRequest) (api.Pack, error) {
	p := api.Pack{Name: r.Name, File: r.File, Key: r.Key}
	if r.File == "" {
		return p, nil
	}
	dir, err := packsDir(a)
	if err != nil {
		return p, err
	}
	found, err := pack.InspectBelow(ctx, dir, r.File)
	if err != nil {
		return p, err
	}
	info := edge.PackInfo(found)
	p.Info = &info
	return p, nil
}

// configurePack makes the configuration have a pack that was mounted, or unmounted if r has neither file nor key.
func configurePack(ctx context.Context, a *cli.App, r api.MountRequest) (removed bool, err error) {
	o, err := settings.EditOptions(a)
	if err != nil {
		return false, err
	}
	return edge.ConfigurePack(ctx, o, r, func(ctx context.Context) (list []api.Pack, running bool, err error) {
		n, err := a.Node()
		if err != nil {
			return nil, true, err
		}
		defer n.Close()
		list, err = n.Packs(ctx)
		return list, !errors.Is(err, client.ErrNotRunning), err
	})
}

// packsDir returns the directory of the packs that are files.
func packsDir(a *cli.App) (string, error) {
	cfg, dir, err := settings.Configuration(a)
	if err != nil {
		return "", err
	}
	return home.Path(dir, cfg.Edge.Pack.Dir), nil
}

// packSource returns the file or the key that a user means by what. An existing file is a file.
func packSource(a *cli.App, name, what string) (api.MountRequest, error) {
	r, key := api.MountRequest{Name: name}, api.MountRequest{Name: name, Key: what}
	if a.API != "" {
		if !edge.MeantAsPackFile(what) {
			return key, nil
		}
		r.File = what // below the edge.dir of that node
		return r, nil
	}
	dir, err := packsDir(a)
	switch {
	case errors.Is(err, home.ErrNone) && !edge.MeantAsPackFile(what): // a node with amnesia may have none
		return key, nil
	case err != nil:
		return r, err
	}
	if info, err := os.Stat(what); err == nil && !info.IsDir() {
		r.File, err = below(dir, what)
		return r, err
	}
	if info, err := os.Stat(filepath.Join(dir, what)); err == nil && !info.IsDir() && filepath.IsLocal(what) {
		r.File = filepath.ToSlash(what)
		return r, nil
	}
	return key, edge.NoPackFile(what, ", and none below edge.dir, "+dir)
}

// below returns the path of a file below dir.
func below(dir, file string) (string, error) {
	rel, ok := edge.PackBelow(dir, file)
	if !ok {
		return "", failure.NewUsage(
			fmt.Sprintf("move it there, or mount its address: allium pack mount NAME $(allium add -q %s)", file),
			"%s is not below edge.dir, %s", file, dir)
	}
	return rel, nil
}

func packUnmountCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "unmount NAME",
		Short: "End the mount of a pack, and take it out of the configuration",
		Long: `End the mount of a pack on the running node, and take edge.packs.NAME out of the
configuration. Requests in flight finish. The file or the object stays.`,
		Example: "  allium pack unmount city",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			return unmountPack(cmd.Context(), a, arg[0])
		},
	}
}

// unmountPack ends the mount of a name on the node if one runs, and takes it out of the configuration.
func unmountPack(ctx context.Context, a *cli.App, name string) error {
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	err = n.UnmountPack(ctx, name)
	if a.API != "" {
		if err != nil {
			return err
		}
		return a.Print(struct{}{}, a.Loud("unmounted"))
	}
	absent := errors.Is(err, client.ErrNotRunning) || status.Of(err) == status.NotFound
	if err != nil && !absent {
		return err
	}
	removed, failed := configurePack(ctx, a, api.MountRequest{Name: name})
	switch {
	case errors.Is(failed, home.ErrNone) && !absent: // the node has amnesia
		return a.Print(struct{}{}, a.Loud("unmounted"))
	case failed != nil:
		return failed
	}
	if absent && !removed {
		return status.Errorf(status.NotFound, "there is no pack %q; `allium pack ls` lists them", name)
	}
	return a.Print(struct{}{}, a.Loud("unmounted"))
}

func packListCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the packs of the node, and say which are not served and why",
		Example: "  allium pack ls\n  allium pack ls --json",
		Args:    cli.NoArgs,
		RunE: a.OnNode(func(ctx context.Context, n api.Node, _ []string) error {
			list, err := n.Packs(ctx)
			if err != nil {
				return err
			}
			for _, p := range list {
				text := packText(p)
				if err := a.Print(p, a.Text(text, p.Name)); err != nil {
					return err
				}
			}
			if len(list) == 0 && !a.JSON {
				return a.Print(struct{}{}, a.Loud("no packs; `allium pack mount` mounts one"))
			}
			return nil
		}),
	}
}

func packInspectCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE|KEY",
		Short: "Verify a pack and say what it is",
		Long: `Verify a pack: its structure, its size and a sample of its tiles, each of which is
proved if the pack has an address. Say what it is: format, tiles, zooms, bounds, layers,
counts, and what is odd. The command fails with the reason if the pack is bad.

A FILE needs no node. A KEY is read by the running node, from peers if need be.`,
		Example: "  allium pack inspect city.pmtiles\n  allium pack inspect $ADDRESS --json",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arg []string) error {
			info, err := inspectPack(cmd.Context(), a, arg[0])
			if err != nil {
				return err
			}
			return a.Print(info, packInfoText(info))
		},
	}
}

// inspectPack verifies what, a file or else a key.
func inspectPack(ctx context.Context, a *cli.App, what string) (api.PackInfo, error) {
	if info, err := os.Stat(what); err == nil && !info.IsDir() && a.API == "" {
		found, err := pack.InspectFile(ctx, what)
		if err != nil {
			return api.PackInfo{}, err
		}
		return edge.PackInfo(found), nil
	}
	if err := edge.NoPackFile(what, ""); err != nil && a.API == "" {
		return api.PackInfo{}, err
	}
	n, err := a.Node()
	if err != nil {
		return api.PackInfo{}, err
	}
	defer n.Close()
	report, finish := a.Progress("inspecting")
	defer finish()
	return n.InspectPack(ctx, what, report)
}

// packText is the line of a pack.
func packText(p api.Pack) string {
	from, why := oneLine(p.File+p.Key), oneLine(p.Error)
	switch {
	case p.Info != nil && p.Error != "":
		return fmt.Sprintf("%-16s %s  %s\n  not the latest: %s", p.Name, packKind(*p.Info), from, why)
	case p.Info != nil:
		return fmt.Sprintf("%-16s %s  %s", p.Name, packKind(*p.Info), from)
	case p.Error != "":
		return fmt.Sprintf("%-16s not served: %s  %s", p.Name, why, from)
	}
	return fmt.Sprintf("%-16s not served yet  %s", p.Name, from)
}

// packKind says what a pack is in a few words.
func packKind(i api.PackInfo) string {
	return fmt.Sprintf("%s, %s, zoom %d to %d, %s", i.Format, i.Tiles, i.MinZoom, i.MaxZoom, term.Bytes(i.Size))
}

// packInfoText is all that is known of a pack.
func packInfoText(i api.PackInfo) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name, value)
		}
	}
	if !i.Root.IsZero() {
		line("address", i.Root.String())
	}
	line("format", i.Format)
	line("size", term.Bytes(i.Size))
	encoding := ""
	if i.Encoding != "" {
		encoding = ", compressed with " + i.Encoding
	}
	line("tiles", i.Tiles+encoding)
	line("zooms", fmt.Sprintf("%d to %d", i.MinZoom, i.MaxZoom))
	if i.Bounds != nil {
		line("bounds", fmt.Sprintf("%.5f, %.5f to %.5f, %.5f", i.Bounds[0], i.Bounds[1], i.Bounds[2], i.Bounds[3]))
	}
	line("addressed", printable.Count(i.Addressed, "tile"))
	if i.Contents > 0 {
		line("different", printable.Count(i.Contents, "tile"))
	}
	line("layers", oneLine(strings.Join(i.Layers, ", ")))
	line("name", oneLine(i.Name))
	line("attribution", oneLine(i.Attribution))
	for _, w := range i.Warnings {
		line("warning", oneLine(w))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// oneLine returns a foreign text on one line. Printing escapes it.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
