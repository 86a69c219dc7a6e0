//go:build !unix

package client

import (
	"context"
	"os"

	"allium/gateway/api"
)

// passing returns nil: files cannot be passed.
func (*Client) passing(*os.File) *Client { return nil }

// fileWriter returns nil: files cannot be passed.
func (*Client) fileWriter(context.Context, string, *api.Stream) func(*os.File, string, api.ProgressFunc) (bool, error) {
	return nil
}
