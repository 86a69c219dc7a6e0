package local

import (
	"context"

	"allium/gateway/api"
)

// control answers the calls for the operator of a node.
type control struct{ of Control }

// ID implements api.Node.
func (c control) ID(context.Context) (api.ID, error) { return c.of.ID(), nil }

// Drain implements api.Node.
func (c control) Drain(context.Context) error {
	c.of.Drain()
	return nil
}

// Reload implements api.Node.
func (c control) Reload(ctx context.Context, r api.ReloadRequest) (api.Reloaded, error) {
	return c.of.Reload(ctx, r)
}

// ReloadStatus implements api.Node.
func (c control) ReloadStatus(_ context.Context, token string) (api.Reloaded, error) {
	return c.of.ReloadStatus(token)
}

// Configuration implements api.Node.
func (c control) Configuration(context.Context) (api.Configuration, error) {
	return c.of.Configuration(), nil
}

// Faults implements api.Node.
func (c control) Faults(context.Context) (api.Faults, error) { return c.of.Faults(), nil }

// SetFaults implements api.Node.
func (c control) SetFaults(_ context.Context, f api.Faults) (api.Faults, error) {
	return c.of.SetFaults(f)
}
