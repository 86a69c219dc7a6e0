package edge

import (
	"context"
	"slices"

	"allium/gateway/api"
	"allium/node/config"
	"allium/protocols/status"
)

// ListPacks returns the packs of the running node. running is false if no node runs, and err may say so.
type ListPacks func(ctx context.Context) (list []api.Pack, running bool, err error)

// ConfigurePack makes the configuration have the pack r, which the caller has mounted on the node, or no pack of that
// name if r has neither file nor key. It reports whether it has taken a pack out. Another command may have changed the
// mount meanwhile: then the configuration gets what the node serves, and the error is conflict.
func ConfigurePack(
	ctx context.Context, o config.Options, r api.MountRequest, list ListPacks,
) (removed bool, err error) {
	entry := "edge.packs." + r.Name
	write := func(r api.MountRequest) error {
		if r.File+r.Key == "" {
			edited, err := config.Unset(ctx, o, entry)
			removed = removed || slices.ContainsFunc(edited, func(e config.Edited) bool { return e.Changed })
			return err
		}
		key, other := entry+".file", entry+".key"
		if r.File == "" {
			key, other = other, key
		}
		return config.SetInstead(ctx, o, config.Assignment{Key: key, Values: []string{r.File + r.Key}}, other)
	}
	return removed, configure(r, write, func() (api.MountRequest, bool, error) {
		all, running, err := list(ctx)
		now := api.MountRequest{Name: r.Name}
		if i := slices.IndexFunc(all, func(p api.Pack) bool { return p.Name == r.Name }); i >= 0 {
			now.File, now.Key = all[i].File, all[i].Key
		}
		return now, running, err
	})
}

// configureTries bounds how often the configuration follows a node whose pack other commands change.
const configureTries = 10

// configure writes r. Since another command may have changed what the node serves, and may have written that before,
// the node is asked after each write, and its pack is written until both agree. The last command that writes has then
// seen them agree.
func configure(
	r api.MountRequest, write func(api.MountRequest) error, served func() (_ api.MountRequest, running bool, _ error),
) error {
	want := r
	for range configureTries {
		if err := write(want); err != nil {
			return err
		}
		now, running, err := served()
		if !running { // a node that starts later reads what was written
			break
		}
		if err != nil {
			return err
		}
		if now == want {
			break
		}
		want = now
	}
	switch want {
	case r:
		return nil
	case api.MountRequest{Name: r.Name}:
		return status.Errorf(status.Conflict, "another command has unmounted %s meanwhile. Run this one again if it "+
			"is to be mounted", r.Name)
	}
	return status.Errorf(status.Conflict, "another command has mounted %s under the name %s meanwhile. Run this one "+
		"again if that is not meant", want.File+want.Key, r.Name)
}
