// Package edge joins live fill and packs of map tiles with the store, the database of records, names and
// manifests of a node.
package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"strings"
	"time"

	ds "github.com/ipfs/go-datastore"

	"allium/gateway/content"
	"allium/gateway/fill"
	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/node/home"
	"allium/node/local/opener"
	"allium/node/readiness"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/resolver/names"
	"allium/resolver/names/lookup"
	"allium/store"
)

// Deps are the parts of the node that live fill and packs use. Records, Audit and Download may be nil.
type Deps struct {
	env.Env

	Home      string // of relative paths
	Store     *store.Store
	Seed      bool           // the node stores no content
	Records   ds.Datastore   // nil: in RAM
	Objects   content.Opener // opens manifests
	Keys      *names.Resolver
	Announce  func(ctx context.Context, root b3.Root)
	Audit     policy.Audit
	Download  *limits.Bandwidth
	UserAgent string
}

// Fills are the live fill of a node.
type Fills struct {
	*fill.Service
	home string
}

// Reconfigure applies the hot fields of a valid configuration at once.
func (f Fills) Reconfigure(cfg fill.Config) { f.Service.Reconfigure(below(f.home, cfg)) }

// below returns a configuration whose files lie below home, where they are relative.
func below(dir string, cfg fill.Config) fill.Config {
	cfg.Sources = maps.Clone(cfg.Sources)
	for name, src := range cfg.Sources {
		src.CAFile = home.Path(dir, src.CAFile)
		cfg.Sources[name] = src
	}
	return cfg
}

// NewFills returns the live fill of a node.
func NewFills(cfg fill.Config, d Deps) (Fills, error) {
	cfg = below(d.Home, cfg)
	deps := fill.Deps{
		Env: d.Env, Store: cacheStore{d.Store, d.Seed}, Manifests: manifests{d.Objects, d.Keys},
		Announce: d.Announce, Audit: d.Audit, Download: d.Download, UserAgent: d.UserAgent,
	}
	if d.Records != nil {
		deps.Records = records{d.Records}
	}
	s, err := fill.New(cfg, deps)
	return Fills{s, d.Home}, err
}

// Gate reads the gate fills, which is shut while new fills are refused.
func (f Fills) Gate() readiness.Reading { return fillsReading(f.Refuses()) }

func fillsReading(waiting, capacity int, refuses bool) readiness.Reading {
	if !refuses {
		return readiness.YesNo(true, "")
	}
	need := int64(capacity/2 + 1)
	return readiness.Reading{
		Have: min(int64(capacity-waiting), need-1), Need: need, RetryAfter: time.Second,
		Fix: fmt.Sprintf("%d fills wait, and further ones are refused with busy; stored objects are served. The "+
			"origins of edge.sources are slow, or edge.fills is too small", waiting),
	}
}

// cacheStore is the store as a cache of origins.
type cacheStore struct {
	st   *store.Store
	seed bool
}

// Put implements fill.Store.
func (c cacheStore) Put(ctx context.Context, r io.Reader, o fill.PutOptions) (fill.Stored, func(), error) {
	if c.seed {
		return fill.Stored{}, nil, opener.ErrSeed
	}
	defer c.st.HoldGC()() // until the lease
	info, err := c.st.Put(ctx, r, store.PutOptions{Expect: o.Expect, Size: max(0, o.Size), Watch: o.Watch})
	if err != nil {
		return fill.Stored{}, nil, err
	}
	return fill.Stored{Root: info.Root, Size: info.Size}, c.st.Lease(info.Root), nil
}

// Hold implements fill.Store. It counts as a use of the object.
func (c cacheStore) Hold(ctx context.Context, root b3.Root) (release func(), ok bool) {
	release = c.st.Lease(root)
	has, err := c.st.Touch(ctx, []b3.Root{root})
	if err != nil || has[0] != b3.Complete {
		release()
		return nil, false
	}
	return release, true
}

// records are the records of live fill in a database that other services share.
type records struct{ db ds.Datastore }

func keyOf(key string) ds.Key { return ds.RawKey("/edge/" + key) }

// Get implements fill.Records.
func (r records) Get(ctx context.Context, key string) ([]byte, error) {
	p, err := r.db.Get(ctx, keyOf(key))
	if errors.Is(err, ds.ErrNotFound) {
		return nil, nil
	}
	return p, err
}

// Put implements fill.Records.
func (r records) Put(ctx context.Context, key string, value []byte) error {
	return r.db.Put(ctx, keyOf(key), value)
}

// manifests finds what directories name.
type manifests struct {
	objects content.Opener
	keys    *names.Resolver
}

// asked returns what a key names.
func asked(ctx context.Context, keys *names.Resolver, key string) (names.Target, error) {
	return keys.Resolve(ctx, key, lookup.Options{})
}

// remembered returns what a key names, without waiting for anybody and without the DNS. However old what is remembered
// of a name is, it counts.
func remembered(ctx context.Context, keys *names.Resolver, key string) (names.Target, error) {
	if !names.IsName(key) {
		return keys.Resolve(ctx, key, lookup.Options{})
	}
	text, below, _ := strings.Cut(key, "/")
	t, ok := keys.Cached(text, math.MaxInt64)
	if !ok {
		return t, status.Errorf(status.NotFound, "edge.mode is offline, and the name %q is not remembered", text)
	}
	t.Path = strings.Trim(t.Path+"/"+below, "/")
	return t, nil
}

// keepAddress is the time for which a lookup below an address may be kept: the bytes of an address never change.
const keepAddress = 365 * 24 * time.Hour

// Lookup implements fill.Manifests. With local, only a manifest that the store has is found, by an address or by a name
// that is remembered.
func (m manifests) Lookup(
	ctx context.Context, key, file string, local bool,
) (fill.Stored, time.Duration, error) {
	get, resolve := opener.Manifests(m.objects), asked
	if local {
		get, resolve = opener.LocalManifests(m.objects), remembered
	}
	t, err := resolve(ctx, m.keys, key)
	if err != nil {
		return fill.Stored{}, 0, err
	}
	keep := keepAddress
	if t.Name != nil {
		keep = t.Name.TTL
	}
	e, err := manifest.Lookup(ctx, get, t.Root, path.Join(t.Path, file))
	var missing *manifest.EntryError
	switch {
	case errors.As(err, &missing) && missing.Outcome == status.NotFound, err == nil && e.Kind != manifest.File:
		return fill.Stored{}, 0, status.Errorf(status.NotFound, "the manifest of the source has no file %.200q", file)
	case err != nil:
		return fill.Stored{}, 0, err
	}
	return fill.Stored{Root: e.Root, Size: e.Size}, keep, nil
}
