//go:build !unix

package client

import (
	"context"
	"os"

	"allium/gateway/api"
)

// passTo returns nil: files cannot be passed.
func passTo(*Client, *os.File) *Client { return nil }

// fileWriter returns nil: files cannot be passed.
func (*Client) fileWriter(context.Context, string, *api.Stream) func(*os.File, string, api.ProgressFunc) (bool, error) {
	return nil
}
