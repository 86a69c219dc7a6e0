package client

import (
	"context"
	"io"
	"net/http"
)

// Metrics returns the metrics of a node in the text format of Prometheus, at most 16 MiB of them.
func Metrics(ctx context.Context, c *Client) ([]byte, error) {
	const path = "/metrics"
	resp, err := c.call(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJSON))
	if err != nil {
		return nil, callError(ctx, path, err)
	}
	return text, nil
}
