package node_test

import (
	"bytes"
	"testing"

	"allium/gateway/api"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/p2p"
	"allium/protocols/status"
)

// TestCutTarIsBadRequest cuts a tar in the middle of its blocks: nothing of it
// is a whole tree, and it is the sender's mistake. A cut between two entries is
// told by what carries the stream.
func TestCutTarIsBadRequest(t *testing.T) {
	noLeaks(t)
	off, err := node.OpenOffline(t.Context(), t.TempDir(), config.Default(p2p.Testnet))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := off.Close(); err != nil {
			t.Error(err)
		}
	}()
	var whole bytes.Buffer
	if err := files.WriteTar(&whole, files.DiskItems(newTree(t, 3))); err != nil {
		t.Fatal(err)
	}
	for at := 700; at < whole.Len()-1024; at += 512 * max(1, whole.Len()/(50*512)) {
		for added, err := range off.Add(t.Context(), bytes.NewReader(whole.Bytes()[:at]), api.AddOptions{}, nil) {
			if status.Of(err) != status.BadRequest {
				t.Errorf("cut after %d of %d bytes: got %v, %v", at, whole.Len(), added, err)
			}
		}
	}
}
