package local

import (
	"allium/gateway/verified"
	"allium/node/local/reading"
	"allium/resolver/names"
)

// Gateway reads files and directories through a gateway that need not be trusted. It
// proves every chunk group of every object, manifests too, so a reader gets the
// content of its key or an error. It requests the small files of a directory in one
// bundle, and stores nothing.
type Gateway struct{ *reader }

// NewGateway returns a Gateway that reads through g. The caller closes g.
func NewGateway(g *verified.Gateway) *Gateway {
	return &Gateway{reading.New(reading.Options{
		Source: reading.Through(g),
		Keys: names.Addresses{
			Without: "a gateway cannot prove what a name stands for; find the address with `allium resolve -q NAME`",
		},
	})}
}
