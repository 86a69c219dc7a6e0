package api

import (
	"context"
	"encoding/json"
	"time"

	"allium/protocols/b3"
	"allium/protocols/capability"
)

// Packs has the calls for packs of map tiles.
type Packs interface {
	// Packs lists the packs of a node by name.
	Packs(ctx context.Context) ([]Pack, error)
	// MountPack verifies a pack and serves it under a name until the node ends. What the name stood for
	// is served until the new pack is verified.
	MountPack(ctx context.Context, r MountRequest, progress ProgressFunc) (Pack, error)
	// UnmountPack ends that. Requests in flight finish.
	UnmountPack(ctx context.Context, name string) error
	// InspectPack verifies the pack of a key, which need not be mounted.
	InspectPack(ctx context.Context, key string, progress ProgressFunc) (PackInfo, error)
}

// MountRequest names a pack, and says where it is: one of File and Key.
type MountRequest struct {
	Name string `query:"name,required" doc:"the name of the pack in its URLs"`
	File string `query:"file" doc:"a file below edge.dir"`
	Key  string `query:"key" doc:"an address or a name, with or without a path below it"`
}

type unmountRequest struct {
	Name string `query:"name,required" doc:"the name of the pack"`
}

var packVerbs = []*Verb{verbPacks.Verb, verbMountPack.Verb, verbUnmountPack.Verb, verbInspectPack.Verb}

var (
	verbPacks = value(Spec{
		ID: "Packs", Path: "packs", Doc: "Lists the packs of map tiles.", Answer: "the packs",
	}, plain(Node.Packs))
	verbMountPack = run(Spec{
		ID: "MountPack", Path: "packs/mount", Op: capability.Reload, Slow: true,
		Doc:    "Verifies a pack of map tiles and serves it under a name until the node ends.",
		Answer: "progress, and the pack",
	}, func(n Node, ctx context.Context, r MountRequest, progress ProgressFunc, _ func(none) error) (Pack, error) {
		return n.MountPack(ctx, r, progress)
	})
	verbUnmountPack = value(Spec{
		ID: "UnmountPack", Path: "packs/unmount", Op: capability.Reload,
		Doc: "Ends the mount of a pack of map tiles.", Answer: "done",
	}, func(n Node, ctx context.Context, r unmountRequest) (none, error) {
		return none{}, n.UnmountPack(ctx, r.Name)
	})
	verbInspectPack = run(Spec{
		ID: "InspectPack", Path: "packs/inspect", Op: capability.Fetch, Slow: true,
		Doc:    "Verifies the pack of map tiles that a key stands for, and describes it.",
		Answer: "progress, and the pack",
	}, func(n Node, ctx context.Context, r keyRequest, progress ProgressFunc, _ func(none) error) (PackInfo, error) {
		return n.InspectPack(ctx, r.Key, progress)
	})
)

// Packs implements Packs.
func (r remotePacks) Packs(ctx context.Context) ([]Pack, error) {
	return verbPacks.send(ctx, r.caller, none{})
}

// MountPack implements Packs.
func (r remotePacks) MountPack(ctx context.Context, q MountRequest, progress ProgressFunc) (Pack, error) {
	return verbMountPack.send(ctx, r.caller, q, progress, nil)
}

// UnmountPack implements Packs.
func (r remotePacks) UnmountPack(ctx context.Context, name string) error {
	return verbUnmountPack.do(ctx, r.caller, unmountRequest{name})
}

// InspectPack implements Packs.
func (r remotePacks) InspectPack(ctx context.Context, key string, progress ProgressFunc) (PackInfo, error) {
	return verbInspectPack.send(ctx, r.caller, keyRequest{key}, progress, nil)
}

// Pack is a pack of map tiles under its name.
type Pack struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"` // below edge.dir
	Key  string `json:"key,omitempty"`  // in place of a file
	// Mounted is the time since which this state of the pack is served. It is missing while none is.
	Mounted time.Time `json:"mounted,omitzero"`
	Version string    `json:"version,omitempty"` // the parameter v of its tiles, which differs for other bytes
	Info    *PackInfo `json:"info,omitempty"`    // missing while nothing is served
	// Error says why the latest verification failed. The state that was mounted before is still served.
	Error string `json:"error,omitempty"`
}

// PackArea is the part of the world that a pack covers.
type PackArea struct {
	MinZoom int         `json:"min_zoom"` // found in the directory
	MaxZoom int         `json:"max_zoom"`
	Bounds  *[4]float64 `json:"bounds,omitempty"` // west, south, east, north in degrees
	Center  *[3]float64 `json:"center,omitempty"` // longitude, latitude, zoom
}

// PackTexts are the texts of a pack's author.
type PackTexts struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Attribution string `json:"attribution,omitempty"` // in a TileJSON: text, escaped for HTML
	Version     string `json:"version,omitempty"`
}

// PackInfo describes a pack.
type PackInfo struct {
	Root     b3.Root `json:"root,omitzero"` // of a pack that an address or a name stands for
	Size     int64   `json:"size"`
	Format   string  `json:"format"`             // pmtiles or mbtiles
	Tiles    string  `json:"tiles"`              // mvt, png, jpg, webp or avif
	Encoding string  `json:"encoding,omitempty"` // of the tiles: gzip, br or zstd
	PackArea
	PackTexts
	Layers    []string `json:"layers,omitempty"`    // the vector layers that the metadata names
	Addressed int64    `json:"addressed,omitempty"` // tiles; 0: not counted
	Contents  int64    `json:"contents,omitempty"`  // tiles of different bytes; 0: not counted
	Warnings  []string `json:"warnings,omitempty"`  // what is odd and yet can be served
}

// TileJSON describes a pack to map renderers, as TileJSON 3.0.0 defines it.
type TileJSON struct {
	TileJSON string   `json:"tilejson"` // 3.0.0
	Tiles    []string `json:"tiles"`    // the URL of the tiles, with {z}, {x} and {y}
	Scheme   string   `json:"scheme"`   // xyz
	PackTexts
	MinZoom int `json:"minzoom"`
	MaxZoom int `json:"maxzoom"`
	// Bounds are west, south, east and north in degrees.
	Bounds *[4]float64 `json:"bounds,omitempty"`
	// Center is longitude, latitude and zoom.
	Center *[3]float64 `json:"center,omitempty"`
	// VectorLayers are the layers as the metadata of the pack has them. A pack without them has an empty list.
	VectorLayers []json.RawMessage `json:"vector_layers"`
	Format       string            `json:"format"` // the extension of the tiles: mvt, png, jpg, webp or avif
}
