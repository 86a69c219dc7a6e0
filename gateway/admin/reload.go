package admin

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

func (g *Handlers) reloadEndpoint() exchange.Endpoint {
	return mutation(g, "Reload", "reload", capability.Reload,
		"Reads the node's files again. If a file cannot be read, its old content stays in force and the answer names it.",
		"the result for each file", noSubject,
		func(ctx context.Context, n api.Node, _ struct{}) (api.Reloaded, error) {
			v, err := n.Reload(ctx)
			v.Files = append([]api.ReloadedFile{}, v.Files...) // [] and not null
			return v, err
		})
}
