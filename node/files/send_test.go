package files

import (
	"context"
	"io"
	"iter"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"allium/gateway/api"
	"allium/protocols/status"
)

// receiver is a node that takes an upload and answers with an error.
type receiver struct {
	api.Store
	read bool // to the end of the upload
	err  error
}

func (r receiver) Add(
	_ context.Context, tar io.Reader, _ api.AddOptions, _ api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		if r.read {
			_, _ = io.Copy(io.Discard, tar)
		}
		yield(api.Added{}, r.err)
	}
}

// TestSendItemsNamesTheCause: an item that cannot be read is the reason, not
// the connection that is cut in its wake; a node's own error stays.
func TestSendItemsNamesTheCause(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, tc := range []struct {
		what string
		to   receiver
		path string
		want status.Outcome
	}{
		{
			"unreadable item", receiver{read: true, err: status.Errorf(status.TransportDown, "cut")},
			filepath.Join(t.TempDir(), "nowhere"), status.NotFound,
		},
		{"node's error", receiver{err: status.Errorf(status.NoSpace, "full")}, newTree(t, 3), status.NoSpace},
	} {
		var got error
		for _, err := range SendItems(t.Context(), tc.to, DiskItems(tc.path), api.AddOptions{}, nil) {
			got = err
		}
		if status.Of(got) != tc.want {
			t.Errorf("%s: got %v, want %s", tc.what, got, tc.want)
		}
	}
}
