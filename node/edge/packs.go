package edge

import (
	"context"
	"fmt"
	"time"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/pack"
	"allium/gateway/pack/tile"
	"allium/gateway/policy"
	"allium/node/home"
	"allium/node/local/reading"
	"allium/node/readiness"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/names"
	"allium/resolver/names/lookup"
	"allium/store"
)

// Packs answers the verbs for packs of map tiles. It implements api.Packs.
type Packs struct{ *pack.Set }

// Packs implements api.Node.
func (p Packs) Packs(context.Context) ([]api.Pack, error) {
	list := []api.Pack{}
	for _, m := range p.Set.List() {
		list = append(list, packOf(m))
	}
	return list, nil
}

// MountPack implements api.Node.
func (p Packs) MountPack(ctx context.Context, r api.MountRequest, progress api.ProgressFunc) (api.Pack, error) {
	m, err := p.Set.Mount(ctx, r.Name, pack.Mount{File: r.File, Key: r.Key}, packProgress(progress))
	return packOf(m), err
}

// UnmountPack implements api.Node.
func (p Packs) UnmountPack(_ context.Context, name string) error { return p.Set.Unmount(name) }

// InspectPack implements api.Node.
func (p Packs) InspectPack(ctx context.Context, key string, progress api.ProgressFunc) (api.PackInfo, error) {
	r, err := p.Set.Inspect(ctx, key, packProgress(progress))
	if err != nil {
		return api.PackInfo{}, err
	}
	return PackInfo(r), nil
}

// packProgress reports the bytes of a pack that were fetched.
func packProgress(progress api.ProgressFunc) pack.ProgressFunc {
	if progress == nil {
		return nil
	}
	return func(done, total int64) { progress(api.Progress{Bytes: done, TotalBytes: total}) }
}

// packOf converts a mounted pack to the type of the API.
func packOf(m pack.Mounted) api.Pack {
	p := api.Pack{Name: m.Name, File: m.Of.File, Key: m.Of.Key, Mounted: m.Since, Version: m.Version}
	if m.Info != nil {
		info := PackInfo(m.Report)
		p.Info = &info
	}
	if m.Err != nil {
		p.Error = status.ReportOf(m.Err).Message
	}
	return p
}

// PackInfo converts the report of a pack to the type of the API.
func PackInfo(r pack.Report) api.PackInfo {
	i := r.Info
	return api.PackInfo{
		Root: r.Root, Size: r.Size, Format: i.Format, Tiles: i.Type.Ext(), Encoding: string(i.Encoding),
		PackArea:  api.PackArea{MinZoom: int(i.MinZoom), MaxZoom: int(i.MaxZoom), Bounds: i.Bounds, Center: i.Center},
		PackTexts: api.PackTexts(i.Texts),
		Layers:    layerNames(i), Addressed: i.Tiles, Contents: i.Contents, Warnings: i.Warnings,
	}
}

// layerNames returns the names of the vector layers of a pack.
func layerNames(i *tile.Info) (names []string) {
	for id := range i.Layers() {
		if id != "" {
			names = append(names, id)
		}
	}
	return names
}

// NewPacks returns the packs of a node. Their objects are opened in d.Objects, unless filter denies them.
func NewPacks(cfg pack.Config, d Deps, filter policy.Filter) (Packs, error) {
	cfg.Dir = home.Path(d.Home, cfg.Dir)
	set, err := pack.New(cfg, pack.Deps{
		Env: d.Env, Objects: packObjects{d.Objects, d.Store}, Filter: filter,
		Keys: packKeys{d.Keys, reading.New(reading.Options{
			Source: reading.InOrder(d.Objects), Keys: reading.Allowed(d.Keys, filter),
		}), filter},
	})
	return Packs{set}, err
}

// Gate reads the gate packs, which is shut while a pack of the configuration is not served, because it is
// bad or nobody has it.
func (p Packs) Gate() readiness.Reading {
	have, need, why := p.Shut()
	return readiness.Reading{
		Have: int64(have), Need: int64(need), RetryAfter: 5 * time.Second,
		Fix: fmt.Sprintf("packs of map tiles are not served: %s. `allium pack ls` shows them; mend the pack, or "+
			"take it out of edge.packs", why),
	}
}

// packObjects opens the objects of packs.
type packObjects struct {
	objects content.Opener
	store   *store.Store
}

// OpenObject implements pack.Objects.
func (p packObjects) OpenObject(ctx context.Context, root b3.Root, local bool) (b3.Content, error) {
	return p.objects.Open(ctx, root, content.OpenOptions{LocalOnly: local})
}

// Keep implements pack.Objects.
func (p packObjects) Keep(root b3.Root) (release func()) { return p.store.Lease(root) }

// packKeys finds the packs that addresses and names stand for.
type packKeys struct {
	names  *names.Resolver
	reader *reading.Reader
	filter policy.Filter
}

// FindObject implements pack.Keys.
func (k packKeys) FindObject(ctx context.Context, key string) (pack.Found, error) {
	t, err := k.names.Resolve(ctx, key, lookup.Options{})
	if err != nil {
		return pack.Found{}, err
	}
	root, err := k.reader.Root(ctx, key)
	if err != nil {
		return pack.Found{}, err
	}
	found := pack.Found{Root: root, Allowed: func() error { return k.allowed(t) }}
	if t.Name != nil {
		found.Named, found.TTL = true, t.Name.TTL
	}
	return found, nil
}

// allowed returns denied if a name that leads to t, or the path of t, is denied.
func (k packKeys) allowed(t names.Target) error {
	if t.Name != nil {
		for _, step := range t.Name.Chain {
			if err := k.filter.Name(step.Name); err != nil {
				return err
			}
		}
	}
	return k.filter.Path(t.Root, t.Path)
}
