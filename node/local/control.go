package local

import (
	"context"

	"allium/gateway/api"
)

// ID implements api.Node.
func (a *Node) ID(context.Context) (api.ID, error) { return a.deps.Control.ID(), nil }

// Drain implements api.Node.
func (a *Node) Drain(context.Context) error {
	a.deps.Control.Drain()
	return nil
}

// Reload implements api.Node.
func (a *Node) Reload(ctx context.Context) (api.Reloaded, error) {
	return a.deps.Control.Reload(ctx)
}

// Faults implements api.Node.
func (a *Node) Faults(context.Context) (api.Faults, error) { return a.deps.Control.Faults(), nil }

// SetFaults implements api.Node.
func (a *Node) SetFaults(_ context.Context, f api.Faults) (api.Faults, error) {
	return a.deps.Control.SetFaults(f)
}
