package viewer

import (
	"embed"
	"sync"

	"allium/gateway/asset"
	"allium/gateway/exchange"
)

// AssetsPath is the path of the assets, with a slash at its end.
const AssetsPath = "/edge/map/"

//go:embed assets/*.gz
var assetFiles embed.FS

// assetSet holds the files that the page loads. Without compression they have at most 2 MiB in all.
type assetSet struct{ script, worker, licence *asset.Asset }

// assets returns the assets. They are read for the first page: most commands show none.
var assets = sync.OnceValue(func() assetSet {
	return assetSet{
		script:  asset.New(assetFiles, "viewer.js", asset.Script, asset.NoPolicy),
		worker:  asset.New(assetFiles, "worker.js", asset.Script, asset.NoPolicy+"; connect-src 'self'"),
		licence: asset.New(assetFiles, "maplibre-licence.txt", asset.Text, asset.NoPolicy),
	}
})

// all returns the assets.
func (s assetSet) all() []*asset.Asset { return []*asset.Asset{s.script, s.worker, s.licence} }

// Endpoint returns the route of the assets.
func Endpoint() exchange.Endpoint {
	return asset.Endpoint("mapAsset", "map_asset", AssetsPath, "Returns a file that the page of a pack loads.",
		exchange.OnPublic, func() asset.Set { return asset.Set{Of: "the maps", All: assets().all()} })
}
