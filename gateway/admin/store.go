package admin

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

func (g *Handlers) statStoreEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "StatStore", Path: "store", Methods: exchange.Getting,
		Doc:     "Reports what the store holds, from counters.",
		Answers: exchange.JSONReplies[api.StoreStat]("the store"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.StoreStat, error) {
			return n.StatStore(ctx)
		}),
	}
}

func (g *Handlers) damageEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Damage", Path: "store/damage", Methods: exchange.Getting,
		Doc:     "Lists the damage that recoveries and checks found in the store.",
		Answers: exchange.JSONReplies[api.DamageReport]("the damage, oldest first"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.DamageReport, error) {
			return n.Damage(ctx)
		}),
	}
}

func (g *Handlers) acceptDamageEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "AcceptDamage", Path: "store/damage/accept", Methods: exchange.Posting, Op: capability.Repair,
		Doc:     "Accepts all open damage as lost. Evictions and writes continue then.",
		Answers: exchange.JSONReplies[api.DamageReport]("the damage that was open and is accepted now"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.DamageReport, error) {
			return n.AcceptDamage(ctx)
		}),
	}
}
