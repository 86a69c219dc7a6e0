package local

import (
	"context"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/store/gc"
)

// GC implements api.Store. When it finds damage, a dry run reports it and any other run
// is an error.
func (a *stored) GC(
	ctx context.Context, o api.GCOptions, progress api.ProgressFunc, removed func(api.GCObject) error,
) (api.GCReport, error) {
	opt := gc.Options{All: o.All, Dry: o.Dry, Fast: o.Fast}
	if progress != nil {
		opt.Progress = func(r gc.Report) {
			gone := r.Classes[gc.Removed]
			progress(api.Progress{Objects: r.Seen.Objects, TotalObjects: r.Before.Used.Objects, Bytes: gone.Bytes})
		}
	}
	var stopped error
	if o.List && removed != nil {
		opt.Removal = func(v gc.Object) bool {
			stopped = removed(api.GCObject{Root: v.Root, Size: v.Size, Used: v.Used, Partial: v.Partial})
			return stopped == nil
		}
	}
	r, err := a.st.Collector().Run(ctx, opt)
	if stopped != nil {
		return api.GCReport{}, stopped
	}
	if o.Dry && r.Err() != nil {
		err = nil // the report names the damage
	}
	return gcReport(r, o.Dry), err
}

func gcReport(r gc.Report, dry bool) api.GCReport {
	c := api.GCReport{
		Dry: dry, Nodes: r.Nodes, Free: r.Before.Free, Blocked: r.Reason(), TookMS: milliseconds(r.Took),
		Used: api.GCCount(r.Before.Used), Max: api.GCCount(r.Before.Max),
		Low: api.GCCount(r.Before.Low), Need: api.GCCount(r.Need),
	}
	for _, class := range []gc.Class{gc.Pinned, gc.Leased, gc.Held, gc.Recent, gc.Cache, gc.Removed} {
		c.Classes = append(c.Classes, api.GCClass{Class: string(class), GCCount: api.GCCount(r.Classes[class])})
	}
	for _, d := range r.Damaged {
		c.Damaged = append(c.Damaged, api.GCDamage{Pin: pinOf(d.Pin), Node: d.Node, Path: d.Path, Fix: d.String()})
	}
	return c
}

// GCWhy implements api.Store.
func (a *stored) GCWhy(ctx context.Context, key string) (api.GCWhy, error) {
	root, err := a.reader.Root(ctx, key)
	if err != nil {
		return api.GCWhy{}, err
	}
	y, err := a.st.Collector().Why(ctx, root)
	if err != nil {
		return api.GCWhy{}, err
	}
	w := api.GCWhy{
		Root: root, Kept: y.Kept(), Here: "no", Size: y.Size, Used: y.Used, Pins: []api.Pin{},
		Leases: y.Leases, Ingest: y.Downloading, Held: y.Held, Cutoff: y.Cutoff, Next: y.EvictedNext(),
	}
	switch {
	case y.Corrupt:
		w.Here = "damaged"
	case y.Presence == b3.Complete:
		w.Here = "whole"
	case y.Presence == b3.Partial:
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
