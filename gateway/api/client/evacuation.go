package client

import (
	"context"
	"iter"
	"net/http"

	"allium/gateway/api"
)

// ResumeCopies implements Node.
func (c *Client) ResumeCopies(ctx context.Context) (api.Resumed, error) {
	return value[api.Resumed](ctx, c, http.MethodPost, verbPath("durability/resume"), nil)
}

// Evacuate implements Node.
func (c *Client) Evacuate(ctx context.Context) iter.Seq2[api.Evacuation, error] {
	return sequence[api.Evacuation](ctx, c, request{method: http.MethodPost, path: verbPath("evacuate")})
}

// StopEvacuation implements Node.
func (c *Client) StopEvacuation(ctx context.Context) error {
	_, err := value[struct{}](ctx, c, http.MethodPost, verbPath("evacuate/stop"), nil)
	return err
}
