//go:build !unix

package client

import (
	"context"
	"os"

	"allium/gateway/api"
)

// fileWriter returns nil: files cannot be passed.
func (*Client) fileWriter(context.Context, string, api.Object) func(*os.File, api.ProgressFunc) error {
	return nil
}
