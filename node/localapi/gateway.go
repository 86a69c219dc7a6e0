package localapi

import (
	"allium/gateway/verified"
	"allium/node/objects"
)

// Gateway reads files and directories through a gateway that need not be
// trusted: every chunk group of every object is proved here, manifests too, so
// that what a key names is what comes or nothing does. The small files of a
// directory are asked for several at once. Nothing is kept.
type Gateway struct{ reader }

// NewGateway returns what can be read through g.
func NewGateway(g *verified.Gateway) *Gateway {
	return &Gateway{reader{newAhead(objects.Through{Gateway: g})}}
}
