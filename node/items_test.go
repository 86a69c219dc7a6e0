package node_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"allium/gateway/client"
	"allium/node"
	"allium/node/config"
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
	if err := node.WriteTar(&whole, node.DiskItems(tree(t, 3))); err != nil {
		t.Fatal(err)
	}
	for at := 700; at < whole.Len()-1024; at += 512 * max(1, whole.Len()/(50*512)) {
		for added, err := range off.Add(t.Context(), bytes.NewReader(whole.Bytes()[:at]), client.AddOptions{}, nil) {
			if status.Of(err) != status.BadRequest {
				t.Errorf("cut after %d of %d bytes: got %v, %v", at, whole.Len(), added, err)
			}
		}
	}
}

// TestTarSaysWhatItsStreamSays: what the carrier of a tar has to say of its end,
// such as that it may not be larger, is what the sender is told, wherever in the
// tar that is.
func TestTarSaysWhatItsStreamSays(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	if err := node.WriteTar(&whole, node.DiskItems(tree(t, 3))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		carrier error
		want    status.Outcome
	}{
		{status.Errorf(status.BodyCap, "the body is larger than 10 bytes"), status.BodyCap},
		{fmt.Errorf("body: %w", context.Canceled), status.Canceled},
		{io.ErrUnexpectedEOF, status.BadRequest},
		{io.ErrClosedPipe, status.BadRequest},
	} {
		inHeader, inBody := 0, 0
		for at := 0; at < whole.Len()-1024; at += 100 + whole.Len()/200 {
			stream := io.MultiReader(bytes.NewReader(whole.Bytes()[:at]), iotest.ErrReader(c.carrier))
			var got error
			for it, err := range node.TarItems(stream) {
				if got = err; err != nil {
					inHeader++
				} else if it.Body != nil {
					if _, got = io.Copy(io.Discard, it.Body); got != nil {
						inBody++
					}
				}
				if got != nil {
					break
				}
			}
			if status.Of(got) != c.want {
				t.Errorf("after %d of %d bytes, %v: got %v", at, whole.Len(), c.carrier, got)
			}
		}
		if inHeader == 0 || inBody == 0 {
			t.Errorf("%d in headers and %d in bodies", inHeader, inBody)
		}
	}
}
