package localapi

import (
	"context"

	"allium/gateway/api"
	"allium/store"
)

// GC implements api.Store. A dry run that finds damage says so in its
// report, any other one is an error then.
func (a *stored) GC(ctx context.Context, o api.GCOptions, progress api.ProgressFunc, removed func(api.GCObject) error) (api.GCReport, error) {
	opt := store.GCOptions{All: o.All, Dry: o.Dry, Fast: o.Fast}
	if progress != nil {
		opt.Progress = func(r store.GCReport) {
			gone := r.Classes[store.GCRemoved]
			progress(api.Progress{Objects: r.Seen.Objects, TotalObjects: r.Before.Used.Objects, Bytes: gone.Bytes})
		}
	}
	var stopped error
	if o.List && removed != nil {
		opt.Removal = func(v store.GCObject) bool {
			stopped = removed(api.GCObject{Root: v.Root, Size: v.Size, Used: v.Used, Partial: v.Partial})
			return stopped == nil
		}
	}
	r, err := a.st.GC(ctx, opt)
	if stopped != nil {
		return api.GCReport{}, stopped
	}
	if o.Dry && r.Err() != nil {
		err = nil // the report says it
	}
	return gcReport(r, o.Dry), err
}

func gcReport(r store.GCReport, dry bool) api.GCReport {
	c := api.GCReport{
		Dry: dry, Nodes: r.Nodes, Free: r.Before.Free, Blocked: r.Reason(), TookMS: float64(r.Took.Microseconds()) / 1000,
		Used: api.GCCount(r.Before.Used), Max: api.GCCount(r.Before.Max), Low: api.GCCount(r.Before.Low), Need: api.GCCount(r.Need),
	}
	for _, class := range []store.Class{store.GCPinned, store.GCLeased, store.GCHeld, store.GCRecent, store.GCCache, store.GCRemoved} {
		c.Classes = append(c.Classes, api.GCClass{Class: string(class), GCCount: api.GCCount(r.Classes[class])})
	}
	for _, d := range r.Damaged {
		c.Damaged = append(c.Damaged, api.GCDamage{Pin: pinOf(d.Pin), Node: d.Node, Path: d.Path, Fix: d.String()})
	}
	return c
}

// GCWhy implements api.Store.
func (a *stored) GCWhy(ctx context.Context, key string) (api.GCWhy, error) {
	root, err := a.root(ctx, key)
	if err != nil {
		return api.GCWhy{}, err
	}
	y, err := a.st.Why(ctx, root)
	if err != nil {
		return api.GCWhy{}, err
	}
	w := api.GCWhy{
		Root: root, Kept: y.Kept(), Here: "no", Size: y.Size, Used: y.Used, Pins: []api.Pin{},
		Leases: y.Leases, Ingest: y.Ingest, Held: y.Held, Cutoff: y.Cutoff, Next: y.Next(),
	}
	switch {
	case y.Corrupt:
		w.Here = "damaged"
	case y.Presence == store.Complete:
		w.Here = "whole"
	case y.Presence == store.PartlyHere:
		w.Here = "partly"
	}
	for _, p := range y.Pins {
		w.Pins = append(w.Pins, pinOf(p))
	}
	if y.Unknown != nil {
		w.Unknown = y.Unknown.Error()
	}
	if y.Above != nil {
		p := pinOf(y.Above.Pin)
		w.Above = &p
		for _, st := range y.Above.Steps {
			w.Path = append(w.Path, api.GCStep(st))
		}
	}
	return w, nil
}
