package client

import (
	"context"
	"net/http"
	"strconv"

	"allium/gateway/api"
)

// rf returns the parameter for a target, "" if there is none.
func rf(t *api.Target) string {
	if t == nil {
		return ""
	}
	if t.EC != "" && t.RF == 0 {
		return ""
	}
	return strconv.Itoa(t.RF)
}

// ec returns the parameter for an erasure coding, "" if none is asked for.
func ec(t *api.Target) string {
	if t == nil {
		return ""
	}
	return t.EC
}

// Durability implements Node.
func (c *Client) Durability(ctx context.Context) (api.Durability, error) {
	return value[api.Durability](ctx, c, http.MethodGet, verbPath("durability"), nil)
}

// ObjectDurability implements Node.
func (c *Client) ObjectDurability(ctx context.Context, key string, explain bool) (api.ObjectDurability, error) {
	return value[api.ObjectDurability](ctx, c, http.MethodGet, verbPath("durability/object"),
		query("key", key, "explain", flag(explain)))
}

// AwaitCopies implements Node.
func (c *Client) AwaitCopies(
	ctx context.Context, key string, t *api.Target, progress api.ProgressFunc,
) (api.Placed, error) {
	return result[api.Placed](ctx, c, request{
		method: http.MethodGet, path: verbPath("durability/wait"), query: query("key", key, "rf", rf(t), "ec", ec(t)),
		progress: progress,
	}, noItems)
}
