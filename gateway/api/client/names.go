package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"

	"allium/gateway/api"
	"allium/protocols/status"
)

// ExpandName implements Node.
func (c *Client) ExpandName(ctx context.Context, text string) (string, error) {
	v, err := value[api.ExpandedName](ctx, c, http.MethodGet, verbPath("name/expand"), query("name", text))
	return v.Name, err
}

// PublishName implements Node.
func (c *Client) PublishName(ctx context.Context, r api.PublishRequest) (api.OwnName, error) {
	return sendJSON[api.OwnName](ctx, c, verbPath("name/publish"), nil, r)
}

// WithdrawName implements Node.
func (c *Client) WithdrawName(ctx context.Context, r api.WithdrawRequest) (api.OwnName, error) {
	return sendJSON[api.OwnName](ctx, c, verbPath("name/withdraw"), nil, r)
}

// OwnNames implements Node.
func (c *Client) OwnNames(ctx context.Context) iter.Seq2[api.OwnName, error] {
	return sequence[api.OwnName](ctx, c, request{method: http.MethodGet, path: verbPath("name/ls")})
}

// sendJSON calls a route with body as JSON and decodes its answer.
func sendJSON[T any](ctx context.Context, c *Client, path string, header http.Header, body any) (T, error) {
	p, err := json.Marshal(body)
	if err != nil {
		var none T
		return none, status.Errorf(status.BadRequest, "%s: %w", path, err)
	}
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	return sendWith[T](ctx, c, http.MethodPost, path, nil, header, bytes.NewReader(p))
}
