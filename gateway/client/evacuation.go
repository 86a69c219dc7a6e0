package client

import (
	"context"
	"iter"
	"net/http"

	"allium/gateway/api"
)

// Evacuate implements Node.
func (c *Client) Evacuate(ctx context.Context) iter.Seq2[api.Evacuation, error] {
	return sequence[api.Evacuation](ctx, c, request{method: http.MethodPost, path: verbPath("evacuate")})
}

// StopEvacuation implements Node.
func (c *Client) StopEvacuation(ctx context.Context) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, verbPath("evacuate/stop"), nil)
	return err
}
