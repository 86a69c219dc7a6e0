package client

import (
	"context"
	"net/http"

	"allium/gateway/api"
)

// Admin calls the mutations of the admin listener. With a key, a call is safe to
// repeat for a day or until the node restarts: the node returns the first answer.
type Admin struct {
	c   *Client
	key string // Idempotency-Key
}

// Admin returns the mutations with an Idempotency-Key. An empty key sends none.
func (c *Client) Admin(key string) Admin { return Admin{c: c, key: key} }

// Pin keeps an object.
func (a Admin) Pin(ctx context.Context, r api.PinRequest) (api.Pin, error) {
	return admin[api.Pin](ctx, a, "pin", r)
}

// Unpin removes an object's pins.
func (a Admin) Unpin(ctx context.Context, r api.UnpinRequest) error {
	_, err := admin[struct{}](ctx, a, "unpin", r)
	return err
}

// Reindex announces one object or, without a key, everything that is pinned.
func (a Admin) Reindex(ctx context.Context, r api.ReindexRequest) (api.Reindexed, error) {
	return admin[api.Reindexed](ctx, a, "reindex", r)
}

// Repair reads objects again and fetches those that are damaged or missing.
func (a Admin) Repair(ctx context.Context, r api.RepairRequest) (api.Repaired, error) {
	return admin[api.Repaired](ctx, a, "repair", r)
}

// GC removes objects that nothing holds, down to the low-water mark or all of them.
func (a Admin) GC(ctx context.Context, r api.GCRequest) (api.GCReport, error) {
	return admin[api.GCReport](ctx, a, "gc", r)
}

// Reload lets the node read its files again.
func (a Admin) Reload(ctx context.Context) (api.Reloaded, error) {
	return admin[api.Reloaded](ctx, a, "reload", struct{}{})
}

// Drain begins the orderly shutdown and returns once it has begun.
func (a Admin) Drain(ctx context.Context) error {
	_, err := admin[struct{}](ctx, a, "drain", struct{}{})
	return err
}

// admin calls a mutation with body as JSON and decodes its answer.
func admin[T any](ctx context.Context, a Admin, verb string, body any) (T, error) {
	header := http.Header{}
	if a.key != "" {
		header.Set("Idempotency-Key", a.key)
	}
	return sendJSON[T](ctx, a.c, "/admin/"+verb, header, body)
}
