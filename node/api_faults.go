package node

import (
	"context"

	"allium/gateway/client"
)

// Faults implements client.Node.
func (a *api) Faults(context.Context) (client.Faults, error) { return a.n.faults.get(), nil }

// SetFaults implements client.Node.
func (a *api) SetFaults(ctx context.Context, v client.Faults) (client.Faults, error) {
	return a.n.faults.set(ctx, v)
}
