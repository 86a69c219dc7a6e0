package main

import (
	"context"
	"errors"
	"slices"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/node/config"
	"allium/protocols/status"
)

// The pack of a name is a MountRequest. One with neither file nor key is no pack.
type (
	// writePack makes the configuration have the pack of a name, and reports whether it had another one.
	writePack func(ctx context.Context, r api.MountRequest) (changed bool, err error)
	// servedPack returns what the node serves under a name, or ErrNotRunning.
	servedPack func(ctx context.Context) (api.MountRequest, error)
)

// configureTries bounds how often the configuration follows a node whose pack other commands change.
const configureTries = 10

// configureServed makes the configuration have r, which the caller has mounted on the node, or unmounted. Another command
// may have changed the mount meanwhile, and may have written it before. So the node is asked after each write, and what
// it serves is written until both agree: the last command that writes has then seen them agree. It returns conflict if
// that is not r.
func configureServed(ctx context.Context, r api.MountRequest, write writePack, served servedPack) error {
	want := r
	for range configureTries {
		if _, err := write(ctx, want); err != nil {
			return err
		}
		now, err := served(ctx)
		switch {
		case errors.Is(err, client.ErrNotRunning): // it starts with what was written
			now = want
		case err != nil:
			return err
		}
		if now == want {
			break
		}
		want = now
	}
	switch {
	case want == r:
		return nil
	case want == api.MountRequest{Name: r.Name}:
		return status.Errorf(status.Conflict, "another command has unmounted %s meanwhile. Run this one again if it is to "+
			"be mounted", r.Name)
	}
	return status.Errorf(status.Conflict, "another command has mounted %s under the name %s meanwhile. Run this one again "+
		"if that is not meant", want.File+want.Key, r.Name)
}

// configurer returns what writes a pack to the configuration in place of what its name stood for.
func configurer(a *app) writePack {
	return func(ctx context.Context, r api.MountRequest) (bool, error) {
		o, err := editOptions(a)
		if err != nil {
			return false, err
		}
		entry := "edge.packs." + r.Name
		if r.File+r.Key == "" {
			edited, err := config.Unset(ctx, o, entry)
			return slices.ContainsFunc(edited, func(e config.Edited) bool { return e.Changed }), err
		}
		key, other := entry+".file", entry+".key"
		if r.File == "" {
			key, other = other, key
		}
		return true, config.SetInstead(ctx, o, config.Assignment{Key: key, Values: []string{r.File + r.Key}}, other)
	}
}

// servedBy returns what asks the running node what it serves under a name.
func servedBy(a *app, name string) servedPack {
	return func(ctx context.Context) (api.MountRequest, error) {
		n, err := a.node()
		if err != nil {
			return api.MountRequest{}, err
		}
		defer n.Close()
		list, err := n.Packs(ctx)
		r := api.MountRequest{Name: name}
		if i := slices.IndexFunc(list, func(p api.Pack) bool { return p.Name == name }); i >= 0 {
			r.File, r.Key = list[i].File, list[i].Key
		}
		return r, err
	}
}
