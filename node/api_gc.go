package node

import (
	"context"

	"allium/gateway/client"
	"allium/store"
)

// GC implements client.Store. A dry run that finds damage says so in its
// report, any other one is an error then.
func (a *storeAPI) GC(ctx context.Context, o client.GCOptions, progress client.ProgressFunc, removed func(client.GCObject) error) (client.GCReport, error) {
	opt := store.GCOptions{All: o.All, Dry: o.Dry, Fast: o.Fast}
	if progress != nil {
		opt.Progress = func(r store.GCReport) {
			gone := r.Classes[store.GCRemoved]
			progress(client.Progress{Objects: r.Seen.Objects, TotalObjects: r.Before.Used.Objects, Bytes: gone.Bytes})
		}
	}
	var stopped error
	if o.List && removed != nil {
		opt.Removal = func(v store.GCObject) bool {
			stopped = removed(client.GCObject{Root: v.Root, Size: v.Size, Used: v.Used, Partial: v.Partial})
			return stopped == nil
		}
	}
	r, err := a.st.GC(ctx, opt)
	if stopped != nil {
		return client.GCReport{}, stopped
	}
	if o.Dry && r.Err() != nil {
		err = nil // the report says it
	}
	return gcReport(r, o.Dry), err
}

func gcReport(r store.GCReport, dry bool) client.GCReport {
	c := client.GCReport{
		Dry: dry, Nodes: r.Nodes, Free: r.Before.Free, TookMS: float64(r.Took.Microseconds()) / 1000,
		Used: client.GCCount(r.Before.Used), Max: client.GCCount(r.Before.Max), Low: client.GCCount(r.Before.Low), Need: client.GCCount(r.Need),
	}
	for _, class := range []store.Class{store.GCPinned, store.GCLeased, store.GCHeld, store.GCRecent, store.GCCache, store.GCRemoved} {
		c.Classes = append(c.Classes, client.GCClass{Class: string(class), GCCount: client.GCCount(r.Classes[class])})
	}
	for _, d := range r.Damaged {
		c.Damaged = append(c.Damaged, client.GCDamage{Pin: pinOf(d.Pin), Node: d.Node, Path: d.Path, Fix: d.String()})
	}
	return c
}

// GCWhy implements client.Store.
func (a *storeAPI) GCWhy(ctx context.Context, key string) (client.GCWhy, error) {
	root, err := a.root(ctx, key)
	if err != nil {
		return client.GCWhy{}, err
	}
	y, err := a.st.Why(ctx, root)
	if err != nil {
		return client.GCWhy{}, err
	}
	w := client.GCWhy{
		Root: root, Kept: y.Kept(), Here: "no", Size: y.Size, Used: y.Used, Pins: []client.Pin{},
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
			w.Path = append(w.Path, client.GCStep(st))
		}
	}
	return w, nil
}
